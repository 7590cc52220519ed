package shapes

import (
	"log/slog"
	"maps"
	"slices"
	"strconv"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
)

// Start restores the sketches from a store in the background, and saves changes until Stop
// is called.
func (s *Shapes) Start(store state.Store, log *slog.Logger) {
	s.mu.Lock()
	s.persistent = true
	s.mu.Unlock()
	s.persister.Start(store, log, segments{s})
}

// Stop saves all changes. It does nothing if Start was not called.
func (s *Shapes) Stop() { s.persister.Stop() }

// segments implements state.Statistics. The keys are segment numbers.
type segments struct{ *Shapes }

// Restore implements state.Statistics. It assigns a slot to each sketch.
func (s segments) Restore(stored map[string]segment, _ bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, number := range slices.Sorted(maps.Keys(stored)) {
		one := stored[number]
		if s.persister.IsDeleted(allEvents) {
			s.persister.MarkChanged(number)
			continue
		}
		if !one.Since.IsZero() && one.Since.Before(s.since) {
			s.since = one.Since
		}
		for i := range one.Events {
			r := &one.Events[i]
			if k := (key{r.Source, r.Type, r.Name}); s.persister.IsDeleted(k.id()) {
				s.persister.MarkChanged(number)
			} else {
				s.restoreOne(k, r)
			}
		}
	}
	s.loaded = true
	for _, e := range s.events {
		if e.slot < 0 {
			s.assignSlot(e)
		}
	}
}

func (s *Shapes) restoreOne(k key, r *sketchRecord) {
	e := s.events[k]
	if e == nil {
		if e = s.newSketch(k); e == nil {
			s.others += r.Calls
			return
		}
	}
	e.merge(r)
	if r.Slot < 0 || r.Slot >= maxEvents || e.slot >= 0 {
		return
	}
	for len(s.slots) <= r.Slot {
		s.slots = append(s.slots, nil)
	}
	if s.slots[r.Slot] == nil {
		s.slots[r.Slot], e.slot = e, r.Slot
	}
}

// Changed implements state.Statistics.
func (s segments) Changed() (numbers []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for slot, e := range s.slots {
		if e != nil && e.changed {
			numbers = append(numbers, strconv.Itoa(slot/segmentEvents))
		}
	}
	return numbers
}

// Record implements state.Statistics.
func (s segments) Record(key string) (segment, bool) {
	one := segment{Header: state.Header{Version: recordVersion}}
	number, err := strconv.ParseUint(key, 10, 16)
	if err != nil {
		return one, false
	}
	for place := range segmentEvents {
		slot := int(number)*segmentEvents + place
		s.mu.Lock() // locks for each sketch separately, so that requests wait only briefly
		one.Since = s.since.UTC()
		if slot < len(s.slots) && s.slots[slot] != nil {
			e := s.slots[slot]
			e.changed = false
			one.Events = append(one.Events, e.record())
		}
		s.mu.Unlock()
	}
	return one, len(one.Events) > 0
}
