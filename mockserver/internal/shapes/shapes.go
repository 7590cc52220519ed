package shapes

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
)

// Shapes collects the structure of all events. It is safe for concurrent use.
type Shapes struct {
	persister *state.Persister[segment]

	mu         sync.Mutex // guards the fields below
	persistent bool       // Start was called
	loaded     bool       // the stored sketches have been restored
	events     map[key]*sketch
	ofSource   map[string]int
	slots      []*sketch // sketches by slot; nil for free slots
	bytes      int
	others     uint64    // calls of events beyond the limit
	since      time.Time // start of counting
	swept      time.Time // time of the last sweep
	tokens     tokens
}

// New returns an empty Shapes.
func New() *Shapes {
	s := &Shapes{persister: state.NewPersister[segment]("shapes", "the shapes of events", recordVersion)}
	s.clear()
	return s
}

// Clear deletes all events.
func (s *Shapes) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.persister.MarkDeleted(allEvents)
	s.clear()
}

// allEvents is the ID that MarkDeleted uses for all events.
const allEvents = ""

func (s *Shapes) clear() {
	for slot := range s.slots {
		s.rewrite(slot)
	}
	s.events, s.ofSource, s.slots = map[key]*sketch{}, map[string]int{}, nil
	s.bytes, s.others, s.since, s.swept, s.tokens = 0, 0, time.Now(), time.Time{}, tokens{}
}

// Delete deletes the data of an event. The next call of the event starts new data. Delete reports
// whether the event exists, or may exist in data that is still being restored.
func (s *Shapes) Delete(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	mayBe := s.persister.MarkDeleted(id)
	for k, e := range s.events {
		if k.id() == id {
			s.remove(e)
			return true
		}
	}
	return mayBe
}

// remove deletes an event. The lock must be held.
func (s *Shapes) remove(e *sketch) {
	delete(s.events, e.key)
	if s.ofSource[e.source]--; s.ofSource[e.source] == 0 {
		delete(s.ofSource, e.source)
	}
	if e.slot >= 0 {
		s.slots[e.slot] = nil
		s.rewrite(e.slot)
	}
	s.bytes -= e.bytes
}

// segmentEvents is the number of events in a stored record.
const segmentEvents = 8

// rewrite schedules saving of the segment that contains a slot.
func (s *Shapes) rewrite(slot int) { s.persister.MarkChanged(strconv.Itoa(slot / segmentEvents)) }

// sketchOf returns the sketch of an event, and creates it if necessary. It returns nil if the limits
// are reached.
func (s *Shapes) sketchOf(k key, now time.Time) *sketch {
	if e := s.events[k]; e != nil {
		return e
	}
	if len(k.name) > maxName {
		return nil
	}
	if s.ofSource[k.source] >= maxOfSource {
		s.sweep(now, func(e *sketch) bool { return e.source == k.source })
		return nil // a later call of the event may find room
	}
	e := s.newSketch(k)
	if e == nil {
		s.sweep(now, func(*sketch) bool { return true })
		return nil
	}
	if s.loaded {
		s.assignSlot(e)
	}
	return e
}

// newSketch returns an empty sketch, or nil if the limits are reached.
func (s *Shapes) newSketch(k key) *sketch {
	e := &sketch{key: key{strings.Clone(k.source), strings.Clone(k.typ), strings.Clone(k.name)}, slot: -1, total: &s.bytes}
	if len(s.events) >= maxEvents || !e.take(eventBytes+len(k.source)+len(k.name)) {
		return nil
	}
	s.events[e.key] = e
	s.ofSource[e.source]++
	return e
}

// assignSlot assigns the first free slot to a sketch.
func (s *Shapes) assignSlot(e *sketch) {
	for slot, other := range s.slots {
		if other == nil {
			s.slots[slot], e.slot = e, slot
			return
		}
	}
	e.slot = len(s.slots)
	s.slots = append(s.slots, e)
}

const (
	// staleAfter is the time without calls after which an event may be evicted.
	staleAfter = 24 * time.Hour
	// sweepEvery is the minimum interval between evictions.
	sweepEvery = time.Minute
)

// sweep evicts the event with the oldest last call, among the stale events that selects
// accepts.
func (s *Shapes) sweep(now time.Time, selects func(*sketch) bool) {
	if now.Sub(s.swept) < sweepEvery {
		return
	}
	s.swept = now
	var oldest *sketch
	for _, e := range s.events {
		if selects(e) && (oldest == nil || e.lastAt < oldest.lastAt) {
			oldest = e
		}
	}
	if oldest != nil && now.Sub(time.UnixMilli(oldest.lastAt)) >= staleAfter {
		s.remove(oldest)
	}
}
