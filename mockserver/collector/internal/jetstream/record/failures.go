package record

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Reasons is the header of a FAILED message with the reasons of its calls.
type Reasons struct {
	Source   string   `json:"source"`
	Attempts int      `json:"attempts"`
	Reasons  []string `json:"reasons"`
	Of       []int    `json:"of"` // for each call, its index in Reasons
}

// Reason returns the reason why the call at a place failed or was filtered.
func (r Reasons) Reason(place int) (reason string, filtered bool) {
	if place < len(r.Of) && r.Of[place] < len(r.Reasons) {
		return reasonOf(r.Reasons[r.Of[place]])
	}
	return "", false
}

// Header returns the header value in at most room bytes. It truncates reasons if necessary.
func (r Reasons) Header(room int) string {
	for most := maxReason; ; most /= 2 {
		for i, reason := range r.Reasons {
			r.Reasons[i] = strings.ToValidUTF8(reason[:min(len(reason), max(most, len(filteredMark)))], "")
		}
		text, _ := json.Marshal(r) // strings and numbers can always be marshaled
		if len(text) <= room || most == 0 {
			return string(text)
		}
	}
}

// A FailedMessage is a message of FAILED.
type FailedMessage struct {
	Seq         uint64
	Destination string
	Ref         FailedRef
	Why         Reasons
	At          time.Time
	IDs         string
	Data        []byte

	Traces string
}

// ParseFailed parses a message of FAILED.
func (n Names) ParseFailed(raw *jetstream.RawStreamMsg) (*FailedMessage, error) {
	f := &FailedMessage{Seq: raw.Sequence, IDs: raw.Header.Get(HeaderIDs), Data: raw.Data, Traces: raw.Header.Get(HeaderTraces)}
	_, rest := n.Split(raw.Subject)
	tok, last, _ := strings.Cut(rest, ".")
	_, err := fmt.Sscanf(last, "%d-%d", &f.Ref.Number, &f.Ref.Attempt)
	if err == nil {
		f.Destination, err = Untoken(tok)
	}
	if err == nil {
		err = json.Unmarshal([]byte(raw.Header.Get(HeaderReasons)), &f.Why)
	}
	if err == nil {
		f.At, err = headerTime(raw.Header)
	}
	if err != nil {
		return nil, fmt.Errorf("journal: message %d of FAILED cannot be read: %w", raw.Sequence, err)
	}
	return f, nil
}

// A Mark is a bit set of the replayed calls of a FAILED message.
type Mark []byte

// Has reports whether the call at a place was replayed.
func (m Mark) Has(place int) bool { return place/8 < len(m) && m[place/8]&(1<<(place%8)) != 0 }

// With returns a copy of the mark with additional places.
func (m Mark) With(places []int) Mark {
	n := len(m)
	for _, p := range places {
		n = max(n, p/8+1)
	}
	marked := make(Mark, n)
	copy(marked, m)
	for _, p := range places {
		marked[p/8] |= 1 << (p % 8)
	}
	return marked
}
