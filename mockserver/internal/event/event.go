package event

import (
	"crypto/sha256"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/tracecontext"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// An Event is something that the collector did with calls: an [Accepted], [Repeated],
// [tracking.Rejection], [Refusal], [tracking.Attempt] or [tracking.Ended].
type Event any

// Accepted tells of calls that were stored.
type Accepted struct {
	Batch
	Keys []Key // of the calls, in their order; nil where they are not at hand
}

// Repeated tells of calls that were stored before. They are not stored again.
type Repeated struct{ Batch }

// A Refusal is a request to the tracking API that was refused as a whole.
type Refusal struct {
	At      time.Time       `json:"at"`
	Method  string          `json:"method"`
	Path    string          `json:"path"`             // its first 200 characters, without a write key
	Source  string          `json:"source,omitempty"` // whose write key its header had; empty where that is not known
	Status  int             `json:"status"`           // of the answer
	Code    tracking.Code   `json:"code"`
	Message string          `json:"message"` // what was wrong and what would be right
	Sender  tracking.Sender `json:"sender,omitzero"`
	Body    []byte          `json:"-"` // what was read of it, unpacked, without write keys; at most the first 4 KiB
	// Count is how many requests it stands for, of which it tells of the newest.
	// Those without a known write key come from scanners too, and are put together by
	// code and minute.
	Count int `json:"count"`
}

// An Observer is told what the collector does with calls. Observe is called from
// many goroutines at once, after the fact, and must not block.
type Observer interface{ Observe(Event) }

// Observers is an Observer that tells several.
type Observers []Observer

// Observe tells each of them.
func (os Observers) Observe(e Event) {
	for _, o := range os {
		o.Observe(e)
	}
}

// A Batch is what one request brought for one source: the unit of storage.
type Batch struct {
	Source     string
	ReceivedAt time.Time
	RetryCount int // how many requests with the batch came before, as this one says by X-Retry-Count; not stored
	Calls      []tracking.Call
	Trace      *tracecontext.Context // that of the request; nil where it had none
}

// Size returns the bytes of the calls' bodies.
func (b Batch) Size() int {
	n := 0
	for i := range b.Calls {
		n += len(b.Calls[i].Body)
	}
	return n
}

// Key names a call: its source and its messageId.
type Key [16]byte

// KeyOf names the call of a source and a messageId.
func KeyOf(source, id string) Key {
	var short [192]byte // what fits costs no allocation
	text := append(append(append(short[:0], source...), 0), id...)
	sum := sha256.Sum256(text)
	return Key(sum[:16])
}

// KeysOf names the calls of a batch, in their order.
func KeysOf(b Batch) []Key {
	hashes := make([]Key, len(b.Calls))
	for i := range b.Calls {
		hashes[i] = KeyOf(b.Calls[i].Source, b.Calls[i].ID)
	}
	return hashes
}
