package jetstream

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// A failedRef names a message of FAILED: the calls of one part of a message that
// were given up at one attempt.
type failedRef struct {
	Number  uint64 `json:"n"` // see callsRef
	Attempt int    `json:"a"`
	Places  []int  `json:"p,omitempty"` // which calls of the message of FAILED
}

func (r failedRef) token() string { return fmt.Sprintf("%d-%d", r.Number, r.Attempt) }

// reasons says why calls were given up. It is a header, so that it can be read
// without the calls.
type reasons struct {
	Source   string   `json:"source"`
	Attempts int      `json:"attempts"`
	Reasons  []string `json:"reasons"`
	Of       []int    `json:"of"` // which of them each call has
}

func (r reasons) of(place int) string {
	if place < len(r.Of) && r.Of[place] < len(r.Reasons) {
		return r.Reasons[r.Of[place]]
	}
	return ""
}

// header writes it in so many bytes, for which reasons may have to be cut off.
func (r reasons) header(room int) string {
	for most := maxReason; ; most /= 2 {
		for i, reason := range r.Reasons {
			r.Reasons[i] = strings.ToValidUTF8(reason[:min(len(reason), most)], "")
		}
		text, _ := json.Marshal(r) // of strings and numbers: it cannot fail
		if len(text) <= room || most == 0 {
			return string(text)
		}
	}
}

// A failedMessage is a message of FAILED.
type failedMessage struct {
	seq  uint64
	ref  failedRef
	why  reasons
	at   time.Time
	ids  string
	data []byte
}

func parseFailed(seq uint64, m *nats.Msg) (*failedMessage, error) {
	f := &failedMessage{seq: seq, ids: m.Header.Get(headerIDs), data: m.Data}
	last := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
	_, err := fmt.Sscanf(last, "%d-%d", &f.ref.Number, &f.ref.Attempt)
	if err == nil {
		err = json.Unmarshal([]byte(m.Header.Get(headerReasons)), &f.why)
	}
	if err == nil {
		f.at, err = headerTime(m.Header)
	}
	if err != nil {
		return nil, fmt.Errorf("journal: message %d of FAILED cannot be read: %w", seq, err)
	}
	return f, nil
}

// A mark is a set of bits: which calls of a message of FAILED were replayed.
type mark []byte

func (m mark) has(place int) bool { return place/8 < len(m) && m[place/8]&(1<<(place%8)) != 0 }

func (m mark) with(places []int) mark {
	n := len(m)
	for _, p := range places {
		n = max(n, p/8+1)
	}
	marked := make(mark, n)
	copy(marked, m)
	for _, p := range places {
		marked[p/8] |= 1 << (p % 8)
	}
	return marked
}
