package mockserver

import "github.com/seed-45eadc4a/analytics-go/mockserver/tracking"

// What tests look at and set up, by short names; package tracking documents it.
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
	StatePending   = tracking.StatePending   // not yet tried, being tried, or waiting for its next attempt
	StateDelivered = tracking.StateDelivered // a webhook took it
	StateFailed    = tracking.StateFailed    // given up, for a reason; kept for replay
	StateFiltered  = tracking.StateFiltered  // not meant for this destination
)

// A TB is what is needed here of a *testing.T, *testing.B or *testing.F.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
}
