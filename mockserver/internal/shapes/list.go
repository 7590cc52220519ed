package shapes

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A Summary says of how much Shapes know.
type Summary struct {
	Since  time.Time `json:"since"`      // when counting began, perhaps by an earlier process
	Others uint64    `json:"otherCalls"` // calls of events for which there was no room
	// Kept is whether it outlasts the process. Of a cluster each collector knows only of
	// the calls that it took since it started.
	Kept bool `json:"kept"`
	// Reading is whether what an earlier process knew is still to be read.
	Reading bool `json:"reading"`
}

// Summary returns of how much s knows.
func (s *Shapes) Summary() Summary {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Summary{s.since.UTC().Truncate(time.Millisecond), s.others, s.persistent, s.persistent && !s.loaded}
}

// Events returns what is known of all events, by source, type and name.
func (s *Shapes) Events() []Event {
	names := s.names()
	events := make([]Event, 0, len(names))
	for _, n := range names {
		if e, ok := s.event(n.key); ok {
			events = append(events, e)
		}
	}
	alike := findSimilar(names)
	for i := range events {
		events[i].complete(alike)
	}
	slices.SortFunc(events, func(a, b Event) int {
		return cmp.Or(strings.Compare(a.Source, b.Source), strings.Compare(a.Type, b.Type),
			strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)), strings.Compare(a.Name, b.Name))
	})
	return events
}

// Event returns what is known of an event by its ID, and whether there is one.
func (s *Shapes) Event(id string) (Event, bool) {
	names := s.names()
	i := slices.IndexFunc(names, func(n name) bool { return n.id() == id })
	if i < 0 {
		return Event{}, false
	}
	e, ok := s.event(names[i].key)
	if ok {
		e.complete(findSimilar(names))
	}
	return e, ok
}

// Named returns what is known of an event by its source, type and name, and whether there
// is one.
func (s *Shapes) Named(source, typ, name string) (Event, bool) {
	return s.Event(key{source, typ, name}.id())
}

// Has reports whether the event of a call is known.
func (s *Shapes) Has(c *tracking.Call) bool {
	k, ok := keyOf(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	return ok && s.events[k] != nil
}

// event copies what is known of one event.
func (s *Shapes) event(k key) (Event, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.events[k]
	if e == nil {
		return Event{}, false // it was forgotten meanwhile
	}
	return e.view(), true
}

// complete finds what is odd about an event.
func (e *Event) complete(alike map[name][]name) {
	e.findSimilar(alike)
	e.findAnomalies(time.Now())
}

// A name is an event and how many calls it has.
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

// findAlike puts names together that differ in case and separators alone, of any source,
// the most frequent first.
func findSimilar(names []name) map[name][]name {
	alike := map[name][]name{}
	for _, n := range names {
		if p := normalize(n.name); p != "" && n.typ == "track" {
			group := name{key: key{"", n.typ, p}}
			alike[group] = append(alike[group], n)
		}
	}
	for _, group := range alike {
		slices.SortFunc(group, func(a, b name) int {
			return cmp.Or(-cmp.Compare(a.calls, b.calls), strings.Compare(a.source, b.source), strings.Compare(a.name, b.name))
		})
	}
	return alike
}

// findAlike finds the most frequent event of another name that is like that of e.
func (e *Event) findSimilar(alike map[name][]name) {
	if e.Type != "track" {
		return
	}
	for _, other := range alike[name{key: key{"", e.Type, normalize(e.Name)}}] {
		if other.name == e.Name {
			continue
		}
		from := ""
		if other.source != e.Source {
			from = " of source " + other.source
		}
		e.Anomalies = append(e.Anomalies, Anomaly{Kind: SimilarEvents, Other: other.id(), Text: e.Name + " (" + text.Plural(int64(e.Calls), "call", "calls") + ") stands beside " + other.name + from + " (" + text.Plural(int64(other.calls), "call", "calls") + ")"})
		return
	}
}
