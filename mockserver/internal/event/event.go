package event

import (
	"time"

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
