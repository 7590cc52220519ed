package inspector

import (
	"slices"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A deliveryState is what became of a call at one destination so far: what that decided
// last, or nothing but its name.
type deliveryState struct {
	tracking.Ended
	Unknown bool // it may have decided before the History first heard of the call
}

// deliveryStatesOf returns where the call stands with each destination that has decided
// about it or is to: in the order of the settings, and then those that are gone.
func deliveryStatesOf(r *tracking.Record, destinations []engine.AttachedDestination) []deliveryState {
	var all []deliveryState
	for _, d := range destinations {
		if last, decided := r.Last(d.Name); decided {
			all = append(all, deliveryState{Ended: last})
		} else if d.Gets(&r.Call) {
			all = append(all, deliveryState{Ended: tracking.Ended{Destination: d.Name}, Unknown: r.Partial})
		}
	}
	for _, e := range r.Ends {
		if !slices.ContainsFunc(all, func(s deliveryState) bool { return s.Destination == e.Destination }) {
			last, _ := r.Last(e.Destination)
			all = append(all, deliveryState{Ended: last})
		}
	}
	return all
}

// state is the State in a word, or unknown.
func (s deliveryState) state() string {
	if s.Unknown {
		return "unknown"
	}
	return s.State.String()
}
