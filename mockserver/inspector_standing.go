package mockserver

import (
	"slices"
	"time"
)

// A standing is where a call stands with one destination.
type standing struct {
	Destination string
	Outcome
	At      time.Time // when that was decided; zero where nothing was yet
	Attempt int       // how often it was tried
	RetryAt time.Time // when it will be tried again; zero where it will not
	Unknown bool      // it may have decided before the History first heard of the call
}

// standingsOf returns where the call stands with each destination that has decided
// about it or is to: in the order of the settings, and then those that are gone.
func standingsOf(r *Record, destinations []attachedDestination) []standing {
	var all []standing
	for _, d := range destinations {
		if s, ok := standingOf(r, d.Name); ok {
			all = append(all, s)
		} else if d.gets(&r.Call) {
			all = append(all, standing{Destination: d.Name, Unknown: r.Partial})
		}
	}
	for _, e := range r.Ends {
		named := func(s standing) bool { return s.Destination == e.Destination }
		if !slices.ContainsFunc(all, named) {
			s, _ := standingOf(r, e.Destination)
			all = append(all, s)
		}
	}
	return all
}

// state is the State in a word, or unknown.
func (s standing) state() string {
	if s.Unknown {
		return "unknown"
	}
	return s.State.String()
}

func standingOf(r *Record, destination string) (standing, bool) {
	e, decided := r.Last(destination)
	return standing{e.Destination, e.Outcome, e.At, e.Attempt, e.RetryAt, false}, decided
}
