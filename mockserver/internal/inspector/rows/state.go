package rows

import (
	"cmp"
	"iter"
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
// outcome for it. It omits outcomes of previous destinations with the same name. Problems come first.
func StatesOf(r *tracking.Record, destinations []engine.AttachedDestination) []DeliveryState {
	return slices.SortedStableFunc(states(r, destinations), func(a, b DeliveryState) int { return cmp.Compare(a.urgency(), b.urgency()) })
}

// states yields the same states in the order of the settings, and does not allocate.
func states(r *tracking.Record, destinations []engine.AttachedDestination) iter.Seq[DeliveryState] {
	return func(yield func(DeliveryState) bool) {
		for i := range destinations {
			d := &destinations[i]
			last, decided := r.Last(d.Name)
			s := DeliveryState{Ended: last}
			if decided = decided && !d.AttachedAfter(&last); !decided {
				s = DeliveryState{Ended: tracking.Ended{Destination: d.Name}, Unknown: r.Partial}
			}
			if (decided || d.Gets(&r.Call)) && !yield(s) {
				return
			}
		}
		for i := range r.Ends {
			name := r.Ends[i].Destination
			if slices.ContainsFunc(destinations, func(d engine.AttachedDestination) bool { return d.Name == name }) ||
				slices.ContainsFunc(r.Ends[:i], func(e tracking.Ended) bool { return e.Destination == name }) {
				continue
			}
			if last, _ := r.Last(name); !yield(DeliveryState{Ended: last}) {
				return
			}
		}
	}
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
