package inspector

import (
	"slices"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A deliveryState is what became of a call at one destination so far.
type deliveryState struct {
	Destination string
	tracking.Outcome
	At      time.Time // when that was decided; zero where nothing was yet
	Attempt int       // how often it was tried
	RetryAt time.Time // when it will be tried again; zero where it will not
	Unknown bool      // it may have decided before the History first heard of the call
}

// deliveryStatesOf returns where the call stands with each destination that has decided
// about it or is to: in the order of the settings, and then those that are gone.
func deliveryStatesOf(r *tracking.Record, destinations []engine.AttachedDestination) []deliveryState {
	var all []deliveryState
	for _, d := range destinations {
		if s, ok := deliveryStateOf(r, d.Name); ok {
			all = append(all, s)
		} else if d.Gets(&r.Call) {
			all = append(all, deliveryState{Destination: d.Name, Unknown: r.Partial})
		}
	}
	for _, e := range r.Ends {
		named := func(s deliveryState) bool { return s.Destination == e.Destination }
		if !slices.ContainsFunc(all, named) {
			s, _ := deliveryStateOf(r, e.Destination)
			all = append(all, s)
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

func deliveryStateOf(r *tracking.Record, destination string) (deliveryState, bool) {
	e, decided := r.Last(destination)
	return deliveryState{e.Destination, e.Outcome, e.At, e.Attempt, e.RetryAt, false}, decided
}
