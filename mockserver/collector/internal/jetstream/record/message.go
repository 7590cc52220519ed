package record

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Headers of messages in CALLS and FAILED. The ledger reads only the headers, not the bodies.
const (
	HeaderCalls   = "Calls"   // number of calls
	headerAt      = "At"      // time in Unix milliseconds when the calls were accepted, replayed or failed, or the destination was attached
	HeaderIDs     = "Ids"     // messageIds, see AppendIDs
	HeaderControl = "Control" // JSON, see Control
	HeaderReasons = "Reasons" // JSON, see Reasons
	HeaderTraces  = "Traces"  // see AppendTrace; optional
	// HeaderPlain is set in messages without other headers, because the server's checksum
	// covers the end of the subject only if headers follow.
	HeaderPlain = "Plain"
)

// A Control contains the fields of a CALLS message that do not describe calls.
type Control struct {
	// The fields of an attached or detached destination.
	Name    string   `json:"name,omitempty"`
	Sources []string `json:"sources,omitempty"`
	Detach  bool     `json:"detach,omitempty"`
	// The fields of a replay.
	Source string      `json:"source,omitempty"`
	From   uint8       `json:"from,omitempty"`   // a tracking.State
	Oldest int64       `json:"oldest,omitempty"` // Unix milliseconds
	Failed []FailedRef `json:"failed,omitempty"` // positions of the calls in FAILED
	// The range of lost messages.
	First uint64 `json:"first,omitempty"`
	Last  uint64 `json:"last,omitempty"`
}

// Lost returns the range of lost messages.
func (c Control) Lost() Span { return Span{c.First, c.Last} }

// A Calls is a message of CALLS with its parsed subject and headers.
type Calls struct {
	Seq     uint64
	Kind    string
	Name    string // name of the source or the destination
	Calls   int
	At      time.Time
	IDs     string
	Traces  string
	Control // zero for accepted calls
}

// ParseCalls parses a message of CALLS.
func (n Names) ParseCalls(raw *jetstream.RawStreamMsg) (*Calls, error) {
	h := raw.Header
	kind, tok := n.Split(raw.Subject)
	m := &Calls{Seq: raw.Sequence, Kind: kind, IDs: h.Get(HeaderIDs), Traces: h.Get(HeaderTraces)}
	var err error
	if kind == KindCalls || kind == KindReplay {
		m.Calls, err = strconv.Atoi(h.Get(HeaderCalls))
	}
	if kind != KindLost && err == nil {
		m.At, err = headerTime(h)
	}
	if kind == KindCalls && err == nil {
		m.Name, err = Untoken(tok)
	}
	if c := h.Get(HeaderControl); kind != KindCalls && err == nil {
		err = m.control(c)
	}
	if err != nil {
		return nil, fmt.Errorf("journal: message %d of CALLS cannot be read: %w", raw.Sequence, err)
	}
	return m, nil
}

func (m *Calls) control(text string) error {
	err := json.Unmarshal([]byte(text), &m.Control)
	if m.Name = m.Control.Name; m.Kind == KindAttach && m.Detach {
		m.Kind = KindDetach
	}
	return err
}

// SourceName returns the source of the message's calls.
func (m *Calls) SourceName() string {
	if m.Kind == KindReplay {
		return m.Source
	}
	return m.Name
}

// Header returns the value of HeaderControl.
func (c Control) Header() string {
	text, _ := json.Marshal(c) // strings and numbers can always be marshaled
	return string(text)
}

func headerTime(h nats.Header) (time.Time, error) {
	ms, err := strconv.ParseInt(h.Get(headerAt), 10, 64)
	return time.UnixMilli(ms), err
}

// SetTime sets the time header.
func SetTime(h nats.Header, at time.Time) { h.Set(headerAt, strconv.FormatInt(at.UnixMilli(), 10)) }

// A FailedRef identifies a message of FAILED, which contains the calls of a part that failed in one
// attempt.
type FailedRef struct {
	Number  uint64 `json:"n"` // see Ref
	Attempt int    `json:"a"`
	Places  []int  `json:"p,omitempty"` // positions of calls in the FAILED message
}

// Token returns the last token of the message's subject.
func (r FailedRef) Token() string { return fmt.Sprintf("%d-%d", r.Number, r.Attempt) }

// A Span is a range of messages. It includes Last.
type Span struct{ First, Last uint64 }

// Contains reports whether one of the spans contains the gap.
func Contains(spans []Span, gap Span) bool {
	return slices.ContainsFunc(spans, func(s Span) bool { return s.First <= gap.First && gap.Last <= s.Last })
}
