package rows

import (
	"cmp"
	"slices"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A DeliveryState is the last outcome of a call at a destination. Without an outcome, only
// the destination is set.
type DeliveryState struct {
	tracking.Ended
	Unknown bool // whether the outcome may have expired
}

// StatesOf returns the state of a call at each destination that receives the call or has an
// outcome for it. Problems come first.
func StatesOf(r *tracking.Record, destinations []engine.AttachedDestination) []DeliveryState {
	var all []DeliveryState
	for _, d := range destinations {
		if last, decided := r.Last(d.Name); decided {
			all = append(all, DeliveryState{Ended: last})
		} else if d.Gets(&r.Call) {
			all = append(all, DeliveryState{Ended: tracking.Ended{Destination: d.Name}, Unknown: r.Partial})
		}
	}
	for _, e := range r.Ends {
		if !slices.ContainsFunc(all, func(s DeliveryState) bool { return s.Destination == e.Destination }) {
			last, _ := r.Last(e.Destination)
			all = append(all, DeliveryState{Ended: last})
		}
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
