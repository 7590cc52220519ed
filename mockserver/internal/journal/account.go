package journal

import (
	"fmt"
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
	// Replicas are the copies of its streams that are missing or behind.
	Replicas []Replica `json:"replicas,omitempty"`
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

// A Replica is a server's copy of a stream that is missing or behind.
type Replica struct {
	Stream string `json:"stream"`
	Server string `json:"server,omitempty"` // empty where the state is of the stream
	State  string `json:"state"`            // ReplicaMissing and so on
	Lag    uint64 `json:"lag,omitempty"`    // how many operations it lacks
}

// String describes the replica's problem.
func (r Replica) String() string {
	switch r.State {
	case ReplicaMissing:
		return r.Stream + " has fewer replicas than configured"
	case ReplicaUnanswered:
		return r.Stream + " does not answer: it may have no leader"
	case ReplicaNoJetStream:
		return fmt.Sprintf("%s on %s: JetStream does not run there; see the log of the server", r.Stream, r.Server)
	case ReplicaOffline:
		return fmt.Sprintf("%s on %s: it does not answer; the server is down, cut off or without JetStream", r.Stream, r.Server)
	}
	return fmt.Sprintf("%s on %s: it is behind by %d operations", r.Stream, r.Server, r.Lag)
}

// Values of Replica.State.
const (
	ReplicaMissing     = "missing"     // no server has it
	ReplicaUnanswered  = "unanswered"  // no leader of the stream answers
	ReplicaNoJetStream = "noJetStream" // its server runs without JetStream
	ReplicaOffline     = "offline"     // it does not answer its leader
	ReplicaBehind      = "behind"      // it answers, and lacks many operations
)

// Values of Server.Sync: whether a server brings messages to its disk before it
// acknowledges them.
const (
	SyncAlways  = "always"
	SyncLazy    = "lazy"
	SyncUnknown = "unknown"
)
