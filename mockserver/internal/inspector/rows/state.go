package rows

import (
	"cmp"
	"slices"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A DeliveryState is the state of a call at a destination.
type DeliveryState struct {
	tracking.Ended
	Unknown bool // whether the result may have expired
}

// StatesOf returns the states of a call; see [engine.States]. Problems come first.
func StatesOf(r *tracking.Record, destinations []engine.AttachedDestination) []DeliveryState {
	var all []DeliveryState
	for e, known := range engine.States(r, destinations) {
		all = append(all, DeliveryState{e, !known})
	}
	slices.SortStableFunc(all, func(a, b DeliveryState) int { return cmp.Compare(a.urgency(), b.urgency()) })
	return all
}

// urgency returns the sort position of a state.
func (s DeliveryState) urgency() int {
	return slices.Index([]string{"failed", "retrying", "pending", "unknown", "delivered", "filtered"}, s.Look())
}

// state returns the name of the state.
func (s DeliveryState) state() string {
	if s.Unknown {
		return "unknown"
	}
	return s.State.String()
}

// lastAttempt returns the newest attempt at a destination, or nil.
func lastAttempt(r *tracking.Record, destination string) *tracking.Attempt {
	var last *tracking.Attempt
	for i := range r.Attempts {
		if a := &r.Attempts[i]; a.Destination == destination && (last == nil || !a.Time.Before(last.Time)) {
			last = a
		}
	}
	return last
}
