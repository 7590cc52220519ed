package journal

import (
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/tracecontext"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A Verification says whether the ledger of one destination is proved by what is
// stored.
type Verification struct {
	// Ledger is counted anew from what is stored, in another way than that which
	// the journal's Ledger returns.
	tracking.Ledger
	// Losses are the records of Lost, oldest first.
	Losses []Loss `json:"losses,omitempty"`
	// Problems are what contradicts the ledger. None means that it is proved.
	Problems []string `json:"problems,omitempty"`
}

// OK reports whether the ledger is proved.
func (v Verification) OK() bool { return v.Holds() && len(v.Problems) == 0 }

// A Loss is a loss of calls that an operator has accepted.
type Loss struct {
	At    time.Time `json:"at"`
	Calls int64     `json:"calls"`
	Cause string    `json:"cause"` // what was damaged
}

// A FailedCall is a call that a destination has given up, or one that was filtered and is
// kept.
type FailedCall struct {
	Call     tracking.Call
	Trace    *tracecontext.Context // of the request that brought it; nil where it had none
	Filtered bool
	Reason   string
	FailedAt time.Time
	// Attempts is the Attempt of the entry in which the call was given up: it was
	// tried so often at most.
	Attempts int
}

// Move takes n calls from one state to another.
func Move(l *tracking.Ledger, n int, from, to tracking.State) {
	*count(l, from) -= int64(n)
	*count(l, to) += int64(n)
}

func count(l *tracking.Ledger, s tracking.State) *int64 {
	switch s {
	case tracking.StateDelivered:
		return &l.Delivered
	case tracking.StateFailed:
		return &l.Failed
	case tracking.StateFiltered:
		return &l.Filtered
	default:
		return &l.Pending
	}
}

// Health is how full a journal is.
type Health struct {
	Bytes      int64 `json:"bytes"`      // that its calls take
	LimitBytes int64 `json:"limitBytes"` // at which it refuses more; 0 where there is no limit
	// Servers are those of the cluster that keeps it, by name; none where it is on one
	// machine.
	Servers []Server `json:"servers,omitempty"`
	// Scrub is what reading all that is stored has found; zero where that is not done.
	Scrub Scrub `json:"scrub,omitzero"`
}

// A Scrub is what a journal has found that reads all that it has stored, again
// and again.
type Scrub struct {
	Bytes      uint64    `json:"bytes"`               // that were read
	Rounds     int64     `json:"rounds"`              // in which all was read
	FinishedAt time.Time `json:"finishedAt,omitzero"` // when the last of them ended
	Damage     []string  `json:"damage,omitempty"`    // what it found
}

// A Server is a server of the cluster that keeps a journal.
type Server struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"` // empty where it is not known
	Sync    string `json:"sync"`              // SyncAlways, SyncLazy or SyncUnknown
	// SyncInterval is the setting, as "always" or "2m0s"; empty where it is not known.
	SyncInterval string `json:"syncInterval,omitempty"`
}

// Values of Server.Sync: whether a server brings messages to its disk before it
// acknowledges them.
const (
	SyncAlways  = "always"
	SyncLazy    = "lazy"
	SyncUnknown = "unknown"
)
