package record

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// Headers of the messages in CALLS and FAILED. They say all that the account
// needs, so that it can be read without the bodies.
const (
	HeaderCalls   = "Calls"   // how many calls there are
	headerAt      = "At"      // when they were accepted, replayed or given up, or the destination attached: milliseconds
	HeaderIDs     = "Ids"     // their messageIds, see AppendIDs
	HeaderControl = "Control" // JSON, see control
	HeaderReasons = "Reasons" // JSON, see reasons
	HeaderTraces  = "Traces"  // of which trace they are part, see AppendTrace; only where some are
	// HeaderPlain is for messages that say nothing by headers: the server's checksum
	// covers where the subject ends only if there are some.
	HeaderPlain = "Plain"
)

// A Control is what a message of CALLS says beside calls.
type Control struct {
	// Of a destination that is attached or detached.
	Name    string   `json:"name,omitempty"`
	Sources []string `json:"sources,omitempty"`
	Detach  bool     `json:"detach,omitempty"`
	// Of calls that are replayed.
	Source string      `json:"source,omitempty"`
	From   uint8       `json:"from,omitempty"`   // a tracking.State
	Oldest int64       `json:"oldest,omitempty"` // milliseconds
	Failed []FailedRef `json:"failed,omitempty"` // where they are listed as failed
	// Of messages that a power cut took.
	First uint64 `json:"first,omitempty"`
	Last  uint64 `json:"last,omitempty"`
}

// A Calls is a message of CALLS by its headers.
type Calls struct {
	Seq     uint64
	Kind    string
	Name    string // of the source, or of the destination
	Calls   int
	At      time.Time
	IDs     string
	Traces  string
	Sources []string
	From    tracking.State
	source  string // of calls that are replayed
	Oldest  time.Time
	Failed  []FailedRef
	Lost    Span
}

// ParseCalls reads the headers of a message of CALLS.
func (n Names) ParseCalls(seq uint64, subject string, h nats.Header) (*Calls, error) {
	kind, tok := n.Kind(subject)
	m := &Calls{Seq: seq, Kind: kind, IDs: h.Get(HeaderIDs), Traces: h.Get(HeaderTraces)}
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
		return nil, fmt.Errorf("journal: message %d of CALLS cannot be read: %w", seq, err)
	}
	return m, nil
}

func (m *Calls) control(text string) error {
	var c Control
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	if m.Kind == KindAttach && c.Detach {
		m.Kind = KindDetach
	}
	m.Name, m.Sources, m.source, m.From, m.Failed = c.Name, c.Sources, c.Source, tracking.State(c.From), c.Failed
	m.Oldest, m.Lost = time.UnixMilli(c.Oldest), Span{c.First, c.Last}
	return nil
}

// SourceName returns the source of the message's calls.
func (m *Calls) SourceName() string {
	if m.Kind == KindReplay {
		return m.source
	}
	return m.Name
}

// Header returns the value of HeaderControl.
func (c Control) Header() string {
	text, _ := json.Marshal(c) // of strings and numbers: it cannot fail
	return string(text)
}

func headerTime(h nats.Header) (time.Time, error) {
	ms, err := strconv.ParseInt(h.Get(headerAt), 10, 64)
	return time.UnixMilli(ms), err
}

// SetTime puts into headers when what they are about happened.
func SetTime(h nats.Header, at time.Time) { h.Set(headerAt, strconv.FormatInt(at.UnixMilli(), 10)) }

// A FailedRef names a message of FAILED: the calls of one part of a message that
// were given up at one attempt.
type FailedRef struct {
	Number  uint64 `json:"n"` // see Ref
	Attempt int    `json:"a"`
	Places  []int  `json:"p,omitempty"` // which calls of the message of FAILED
}

// Token returns the end of the subject of the message.
func (r FailedRef) Token() string { return fmt.Sprintf("%d-%d", r.Number, r.Attempt) }

// A Span is messages of a stream, from first to last.
type Span struct{ First, Last uint64 }

// Contains reports whether all messages of a gap are in one of the spans.
func Contains(spans []Span, gap Span) bool {
	return slices.ContainsFunc(spans, func(s Span) bool { return s.First <= gap.First && gap.Last <= s.Last })
}
