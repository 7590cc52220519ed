package mockserver

import (
	"slices"
	"time"
)

// An attachedDestination is a destination as the inspector sees it.
type attachedDestination struct {
	Destination
	since time.Time // when it was attached; it gets no calls from before
}

// attached returns the destinations of the settings that apply.
func (c *Collector) attached() []attachedDestination {
	settings := c.Settings()
	attached := make([]attachedDestination, 0, len(settings.Destinations))
	for _, d := range settings.Destinations {
		if w := c.worker(d.Name); w != nil {
			attached = append(attached, attachedDestination{d, w.attachedSince()})
		}
	}
	return attached
}

// gets tells whether the journal hands a call to the destination.
func (d attachedDestination) gets(c *Call) bool {
	return !c.ReceivedAt.Before(d.since.Truncate(time.Millisecond)) &&
		(len(d.Sources) == 0 || slices.Contains(d.Sources, c.Source))
}

// A standing is where a call stands with one destination.
type standing struct {
	Destination string
	Outcome
	At      time.Time // when that was decided; zero where nothing was yet
	Attempt int       // how often it was tried
	RetryAt time.Time // when it will be tried again; zero where it will not
	Unknown bool      // it may have decided before the History first heard of the call
}

// standings returns where the call stands with each destination that has decided
// about it or is to: in the order of the settings, and then those that are gone.
func (r *Record) standings(destinations []attachedDestination) []standing {
	var all []standing
	for _, d := range destinations {
		if s, ok := r.standing(d.Name); ok {
			all = append(all, s)
		} else if d.gets(&r.Call) {
			all = append(all, standing{Destination: d.Name, Unknown: r.Partial})
		}
	}
	for _, e := range r.Ends {
		named := func(s standing) bool { return s.Destination == e.Destination }
		if !slices.ContainsFunc(all, named) {
			s, _ := r.standing(e.Destination)
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

func (r *Record) standing(destination string) (standing, bool) {
	e, decided := r.Last(destination)
	return standing{e.Destination, e.Outcome, e.At, e.Attempt, e.RetryAt, false}, decided
}
