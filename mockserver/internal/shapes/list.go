package shapes

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/internal/spell"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A Summary describes the collected data.
type Summary struct {
	Since  time.Time `json:"since"`      // start of counting, possibly in a previous run
	Others uint64    `json:"otherCalls"` // calls of events beyond the limit
	// Kept reports whether the data is stored. In a cluster it is not stored: each collector
	// counts the calls that it has accepted since it started.
	Kept bool `json:"kept"`
	// Reading reports whether stored data is still being restored.
	Reading bool `json:"reading"`
}

func (s *Shapes) Summary() Summary {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Summary{s.since.UTC().Truncate(time.Millisecond), s.others, s.persistent, s.persistent && !s.loaded}
}

// Events returns all events, sorted by source, type and name.
func (s *Shapes) Events() []Event {
	names := s.names()
	events := make([]Event, 0, len(names))
	for _, n := range names {
		if e, ok := s.event(n.key); ok {
			events = append(events, e)
		}
	}
	similar := similarNames(names)
	for i := range events {
		events[i].complete(similar)
	}
	slices.SortFunc(events, func(a, b Event) int {
		return cmp.Or(strings.Compare(a.Source, b.Source), strings.Compare(a.Type, b.Type),
			strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)), strings.Compare(a.Name, b.Name))
	})
	return events
}

// Event returns the event with an ID.
func (s *Shapes) Event(id string) (Event, bool) {
	for _, n := range s.names() {
		if n.id() == id {
			return s.Named(n.source, n.typ, n.name)
		}
	}
	return Event{}, false
}

// Named returns the event with a source, type and name.
func (s *Shapes) Named(source, typ, name string) (Event, bool) {
	e, ok := s.event(key{source, typ, name})
	if ok {
		e.complete(similarNames(s.names()))
	}
	return e, ok
}

// Has reports whether the event of a call is known.
func (s *Shapes) Has(c *tracking.Call) bool {
	k, ok := keyOf(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	return ok && s.events[k] != nil
}

// event returns a copy of an event without anomalies.
func (s *Shapes) event(k key) (Event, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.events[k]
	if e == nil {
		return Event{}, false // the event was deleted in the meantime
	}
	return e.view(), true
}

// complete adds the anomalies to an event.
func (e *Event) complete(similar map[string][]name) {
	e.findSimilar(similar)
	e.findAnomalies(time.Now())
}

// A name is an event with its number of calls.
type name struct {
	key
	calls uint64
}

func (s *Shapes) names() []name {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := make([]name, 0, len(s.events))
	for k, e := range s.events {
		names = append(names, name{k, e.calls})
	}
	return names
}

// similarNames groups the names of the track events of all sources by [spell.Plain], the most frequent
// name first.
func similarNames(names []name) map[string][]name {
	similar := map[string][]name{}
	for _, n := range names {
		if p := spell.Plain(n.name); p != "" && n.typ == "track" {
			similar[p] = append(similar[p], n)
		}
	}
	for _, group := range similar {
		slices.SortFunc(group, func(a, b name) int {
			return cmp.Or(-cmp.Compare(a.calls, b.calls), strings.Compare(a.source, b.source), strings.Compare(a.name, b.name))
		})
	}
	return similar
}

// findSimilar adds an anomaly if an event with a similar name is more frequent.
func (e *Event) findSimilar(similar map[string][]name) {
	if e.Type != "track" {
		return
	}
	for _, other := range similar[spell.Plain(e.Name)] {
		if other.name == e.Name {
			continue
		}
		from := ""
		if other.source != e.Source {
			from = " of source " + other.source
		}
		e.Anomalies = append(e.Anomalies, Anomaly{Kind: SimilarEvents, Other: other.id(), Text: e.Name + " (" + text.Plural(int64(e.Calls), "call", "calls") + ") is similar to " + other.name + from + " (" + text.Plural(int64(other.calls), "call", "calls") + ")"})
		return
	}
}
