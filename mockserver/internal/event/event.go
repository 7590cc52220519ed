package event

import (
	"crypto/sha256"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// An Event is an [Accepted], [Repeated], [tracking.Rejection], [Refusal],
// [tracking.Attempt] or [tracking.Ended].
type Event any

// Accepted reports stored calls.
type Accepted struct {
	Batch
}

// Repeated reports duplicates of stored calls. They are not stored.
type Repeated struct{ Batch }

// A Refusal reports a request to the tracking API that was refused as a whole.
type Refusal struct {
	At      time.Time       `json:"at"`
	Method  string          `json:"method"`
	Path    string          `json:"path"`             // first 200 characters, without write keys
	Source  string          `json:"source,omitempty"` // source of its write key; empty if unknown
	Status  int             `json:"status"`           // of the response
	Code    tracking.Code   `json:"code"`
	Message string          `json:"message"` // the problem and how to fix it
	Sender  tracking.Sender `json:"sender,omitzero"`
	Body    []byte          `json:"-"` // first 4 KiB, decompressed, without write keys
	// Count is the number of merged refusals. Refusals without a known write key, many of
	// them caused by scanners, are merged by code and minute. The other fields are from the
	// newest refusal.
	Count int `json:"count"`
}

// An Observer receives events. Observe is called concurrently and must not block.
type Observer interface{ Observe(Event) }

// Observers is an Observer that calls several others.
type Observers []Observer

// Observe implements Observer.
func (os Observers) Observe(e Event) {
	for _, o := range os {
		o.Observe(e)
	}
}

// A Batch contains the calls of one request for one source.
type Batch struct {
	Source     string
	ReceivedAt time.Time
	RetryCount int // number of earlier requests with the batch, by X-Retry-Count; not stored
	Calls      []tracking.Call
	Trace      *Trace // of the request; may be nil
}

// Size returns the size of the calls' bodies in bytes.
func (b Batch) Size() int {
	n := 0
	for i := range b.Calls {
		n += len(b.Calls[i].Body)
	}
	return n
}

// A Key identifies a call by its source and messageId.
type Key [16]byte

// KeyOf returns the key of a call.
func KeyOf(source, id string) Key {
	var short [192]byte // avoids an allocation
	text := append(append(append(short[:0], source...), 0), id...)
	sum := sha256.Sum256(text)
	return Key(sum[:16])
}

// KeysOf returns the keys of a batch's calls, in order.
func KeysOf(b Batch) []Key {
	hashes := make([]Key, len(b.Calls))
	for i := range b.Calls {
		hashes[i] = KeyOf(b.Calls[i].Source, b.Calls[i].ID)
	}
	return hashes
}
