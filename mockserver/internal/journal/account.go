package journal

import (
	"fmt"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// LedgerOf returns the ledger of a destination, or nil.
func LedgerOf(ledgers []tracking.Ledger, destination string) *tracking.Ledger {
	for i := range ledgers {
		if ledgers[i].Destination == destination {
			return &ledgers[i]
		}
	}
	return nil
}

// A Verification is the result of verifying the ledger of one destination.
type Verification struct {
	// Ledger is counted independently of Journal.Ledger, from the stored data.
	tracking.Ledger
	// Losses are the losses that sum up to Lost, oldest first.
	Losses []Loss `json:"losses,omitempty"`
	// Problems are contradictions between the ledger and the stored data.
	Problems []string `json:"problems,omitempty"`
}

// OK reports whether the ledger is consistent with the stored data.
func (v Verification) OK() bool { return v.Holds() && len(v.Problems) == 0 }

// A Loss is a loss of calls that an operator has accepted.
type Loss struct {
	At    time.Time `json:"at"`
	Calls int64     `json:"calls"`
	Cause string    `json:"cause"` // the corrupt data
}

// A FailedCall is a call that failed permanently, or a filtered call that is kept for replay.
type FailedCall struct {
	Call     tracking.Call
	Trace    *event.Trace // trace context of the request that contained the call, or nil
	Filtered bool
	Reason   string
	FailedAt time.Time
	// Attempts is the Attempt of the entry in which the call failed. It is an upper bound for the
	// number of attempts at the call.
	Attempts int
}

// Move moves n calls from one state to another.
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

// Health is the health of a journal.
type Health struct {
	Bytes      int64 `json:"bytes"`      // size of the stored calls
	LimitBytes int64 `json:"limitBytes"` // size at which the journal is full; 0 is unlimited
	// Servers contains the servers of the cluster, sorted by name. It is empty without a cluster.
	Servers []Server `json:"servers,omitempty"`
	// Replicas contains the missing or lagging copies of streams.
	Replicas []Replica `json:"replicas,omitempty"`
	// Scrub is the progress of the search for corrupt data. It is zero if the search is disabled.
	Scrub Scrub `json:"scrub,omitzero"`
}

// A Scrub is the progress of a repeated search for corruption, which reads all stored data.
type Scrub struct {
	Bytes      uint64    `json:"bytes"`               // number of bytes read so far
	Rounds     int64     `json:"rounds"`              // completed rounds over all data
	FinishedAt time.Time `json:"finishedAt,omitzero"` // end of the last round
	Damage     []string  `json:"damage,omitempty"`    // corrupt data found
}

// A Server is one server of a cluster.
type Server struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"` // empty if unknown
	Sync    string `json:"sync"`              // SyncAlways, SyncLazy or SyncUnknown
	// SyncInterval is the setting, such as "always" or "2m0s". It is empty if unknown.
	SyncInterval string `json:"syncInterval,omitempty"`
}

// A Replica is a copy of a stream that is missing or lagging.
type Replica struct {
	Stream string `json:"stream"`
	Server string `json:"server,omitempty"` // empty if State applies to the whole stream
	State  string `json:"state"`            // one of the constants below
	Lag    uint64 `json:"lag,omitempty"`    // number of missing operations
}

// String describes the problem.
func (r Replica) String() string {
	switch r.State {
	case ReplicaMissing:
		return r.Stream + " has fewer replicas than configured"
	case ReplicaUnanswered:
		return r.Stream + " does not respond: it may have no leader"
	case ReplicaNoJetStream:
		return fmt.Sprintf("%s on %s: JetStream is not running; see the server's log", r.Stream, r.Server)
	case ReplicaOffline:
		return fmt.Sprintf("%s on %s: no response; the server is down, disconnected or without JetStream", r.Stream, r.Server)
	}
	return fmt.Sprintf("%s on %s: %d operations behind", r.Stream, r.Server, r.Lag)
}

// Values of Replica.State.
const (
	ReplicaMissing     = "missing"     // no server has the copy
	ReplicaUnanswered  = "unanswered"  // the stream's leader does not respond
	ReplicaNoJetStream = "noJetStream" // JetStream is not running on the server
	ReplicaOffline     = "offline"     // the server does not respond to the leader
	ReplicaBehind      = "behind"      // the server responds, but the copy is missing many operations
)

// Values of Server.Sync. They state whether a server syncs messages to disk before it acknowledges
// them.
const (
	SyncAlways  = "always"
	SyncLazy    = "lazy"
	SyncUnknown = "unknown"
)
