package rows

import (
	"slices"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A DeliveryState is what became of a call at one destination so far: what that decided
// last, or nothing but its name.
type DeliveryState struct {
	tracking.Ended
	Unknown bool // it may have decided before the History first heard of the call
}

// StatesOf returns where the call stands with each destination that has decided
// about it or is to: in the order of the settings, and then those that are gone.
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
	return all
}

// state is the State in a word, or unknown.
func (s DeliveryState) state() string {
	if s.Unknown {
		return "unknown"
	}
	return s.State.String()
}

// lastAttempt returns the newest attempt that a destination made at a call, or nil.
func lastAttempt(r *tracking.Record, destination string) *tracking.Attempt {
	var last *tracking.Attempt
	for i := range r.Attempts {
		if a := &r.Attempts[i]; a.Destination == destination && (last == nil || !a.Time.Before(last.Time)) {
			last = a
		}
	}
	return last
}
