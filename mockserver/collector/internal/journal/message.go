package journal

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// Headers of the messages in CALLS and FAILED. They say all that the account
// needs, so that it can be read without the bodies.
const (
	headerCalls   = "Calls"   // how many calls there are
	headerAt      = "At"      // when they were accepted, replayed or given up, or the destination attached: milliseconds
	headerIDs     = "Ids"     // their messageIds, see appendIDs
	headerControl = "Control" // JSON, see control
	headerReasons = "Reasons" // JSON, see reasons
	// headerPlain is for messages that say nothing by headers: the server's checksum
	// covers where the subject ends only if there are some.
	headerPlain = "Plain"
)

// A control is what a message of CALLS says beside calls.
type control struct {
	// Of a destination that is attached or detached.
	Name    string   `json:"name,omitempty"`
	Sources []string `json:"sources,omitempty"`
	Detach  bool     `json:"detach,omitempty"`
	// Of calls that are replayed.
	Source string      `json:"source,omitempty"`
	From   uint8       `json:"from,omitempty"`   // a mockserver.State
	Oldest int64       `json:"oldest,omitempty"` // milliseconds
	Failed []failedRef `json:"failed,omitempty"` // where they are listed as failed
	// Of messages that a power cut took.
	First uint64 `json:"first,omitempty"`
	Last  uint64 `json:"last,omitempty"`
}

// kinds of messages in CALLS.
const (
	kindCalls  = "c"
	kindAttach = "a"
	kindDetach = "detach"
	kindReplay = "b"
	kindLost   = "z"
)

// A callsMessage is a message of CALLS by its headers.
type callsMessage struct {
	seq     uint64
	kind    string
	name    string // of the source, or of the destination
	calls   int
	at      time.Time
	ids     string
	sources []string
	from    tracking.State
	source  string // of calls that are replayed
	oldest  time.Time
	failed  []failedRef
	lost    span
}

// parseCalls reads the headers of a message of CALLS.
func (n names) parseCalls(seq uint64, subject string, h nats.Header) (*callsMessage, error) {
	kind, tok := n.kind(subject)
	m := &callsMessage{seq: seq, kind: kind, ids: h.Get(headerIDs)}
	var err error
	if kind == kindCalls || kind == kindReplay {
		m.calls, err = strconv.Atoi(h.Get(headerCalls))
	}
	if kind != kindLost && err == nil {
		m.at, err = headerTime(h)
	}
	if kind == kindCalls && err == nil {
		m.name, err = untoken(tok)
	}
	if c := h.Get(headerControl); kind != kindCalls && err == nil {
		err = m.control(c)
	}
	if err != nil {
		return nil, fmt.Errorf("journal: message %d of CALLS cannot be read: %w", seq, err)
	}
	return m, nil
}

func (m *callsMessage) control(text string) error {
	var c control
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	if m.kind == kindAttach && c.Detach {
		m.kind = kindDetach
	}
	m.name, m.sources, m.source, m.from, m.failed = c.Name, c.Sources, c.Source, tracking.State(c.From), c.Failed
	m.oldest, m.lost = time.UnixMilli(c.Oldest), span{c.First, c.Last}
	return nil
}

// sourceName returns the source of the message's calls.
func (m *callsMessage) sourceName() string {
	if m.kind == kindReplay {
		return m.source
	}
	return m.name
}

func (c control) header() string {
	text, _ := json.Marshal(c) // of strings and numbers: it cannot fail
	return string(text)
}

func headerTime(h nats.Header) (time.Time, error) {
	ms, err := strconv.ParseInt(h.Get(headerAt), 10, 64)
	return time.UnixMilli(ms), err
}

func setTime(h nats.Header, at time.Time) { h.Set(headerAt, strconv.FormatInt(at.UnixMilli(), 10)) }
