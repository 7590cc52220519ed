package mockserver

import "github.com/seed-45eadc4a/analytics-go/mockserver/tracking"

// Aliases for the types of package tracking that tests use most.
type (
	Source      = tracking.Source
	Destination = tracking.Destination
	Limits      = tracking.Limits
	Call        = tracking.Call
	Record      = tracking.Record
	Attempt     = tracking.Attempt
	Outcome     = tracking.Outcome
	State       = tracking.State
	Ledger      = tracking.Ledger
	Rejection   = tracking.Rejection
)

// States of a call at a destination.
const (
	StatePending   = tracking.StatePending   // not attempted, in flight, or waiting for a retry
	StateDelivered = tracking.StateDelivered // accepted by a webhook
	StateFailed    = tracking.StateFailed    // failed permanently; kept for replay
	StateFiltered  = tracking.StateFiltered  // not sent to this destination
)

// TB is the subset of testing.TB that this package uses.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
}
