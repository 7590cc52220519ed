package shapes

import (
	"log/slog"
	"maps"
	"slices"
	"strconv"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/persist"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
)

// Start reads what an earlier process wrote to a store, and writes what changes from now
// on. It returns at once; Stop follows.
func (s *Shapes) Start(store state.Store, log *slog.Logger) {
	s.mu.Lock()
	s.kept = true
	s.mu.Unlock()
	s.keeper = persist.Start(store, log, "shapes", "the shapes of events", recordVersion, segments{s})
}

// Stop writes what has changed. Nothing is written if Start was not called.
func (s *Shapes) Stop() { s.keeper.Stop() }

// segments are the records of sketches: the keys are numbers.
type segments struct{ *Shapes }

// Restore implements persist.Records: it adds segments to what came meanwhile, and gives
// each sketch its place.
func (s segments) Restore(stored map[string]segment, damaged []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(stored)) {
		one := stored[key]
		if s.cleared {
			s.rewrite(key)
			continue
		}
		if !one.Since.IsZero() && one.Since.Before(s.since) {
			s.since = one.Since
		}
		for i := range one.Events {
			s.restoreOne(&one.Events[i])
		}
	}
	for _, key := range damaged {
		s.rewrite(key)
	}
	s.loaded = true
	for _, e := range s.events {
		if e.slot < 0 {
			s.place(e)
		}
	}
}

// rewrite has a segment written again. The lock is held.
func (s segments) rewrite(key string) {
	if number, err := strconv.Atoi(key); err == nil && number >= 0 {
		s.deleted[number] = true
	}
}

func (s *Shapes) restoreOne(r *sketchRecord) {
	k := key{r.Source, r.Type, r.Name}
	e := s.events[k]
	fresh := e == nil
	if fresh {
		e = &sketch{key: k, slot: -1}
		if len(s.events) >= maxEvents || !(room{&s.bytes}).take(e, eventBytes+len(k.source)+len(k.name)) {
			s.others += r.Calls
			return
		}
		s.insert(e)
	}
	e.merge(room{&s.bytes}, r)
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

// Changed implements persist.Records.
func (s segments) Changed() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	numbers := maps.Clone(s.deleted)
	for slot, e := range s.slots {
		if e != nil && e.changed {
			numbers[slot/segmentEvents] = true
		}
	}
	var keys []string
	for _, number := range slices.Sorted(maps.Keys(numbers)) {
		keys = append(keys, strconv.Itoa(number))
	}
	return keys
}

// Record implements persist.Records.
func (s segments) Record(key string) (segment, bool) {
	number, _ := strconv.Atoi(key)
	one := segment{Header: persist.Header{Version: recordVersion}}
	for place := range segmentEvents {
		slot := number*segmentEvents + place
		s.mu.Lock() // for each anew, so that no request waits for all
		if place == 0 {
			delete(s.deleted, number) // what is removed from now on is for the next time
		}
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

// NotWritten implements persist.Records.
func (s segments) NotWritten(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rewrite(key)
}
