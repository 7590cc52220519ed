package shapes

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/persist"
)

// Shapes is what is known of all events. Its methods may be called from many goroutines
// at once.
type Shapes struct {
	persister *persist.Persister[segment]

	mu         sync.Mutex // guards what follows
	persistent bool       // that Start was called
	loaded     bool       // what was written before is known
	events     map[key]*sketch
	ofSource   map[string]int
	slots      []*sketch // by the place where they are written; nil: it is free
	bytes      int
	others     uint64    // calls of events for which there was no room
	since      time.Time // when it began
	swept      time.Time // when room was looked for last
	tokens     tokens
}

// New returns Shapes that know nothing.
func New() *Shapes {
	s := &Shapes{persister: persist.New[segment]("shapes", "the shapes of events", recordVersion)}
	s.clear()
	return s
}

// Clear forgets everything.
func (s *Shapes) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.persister.MarkDeleted(allEvents)
	s.clear()
}

// everything is what Clear forgets. No ID is like it.
const allEvents = ""

func (s *Shapes) clear() {
	for slot := range s.slots {
		s.rewrite(slot)
	}
	s.events, s.ofSource, s.slots = map[key]*sketch{}, map[string]int{}, nil
	s.bytes, s.others, s.since, s.swept, s.tokens = 0, 0, time.Now(), time.Time{}, tokens{}
}

// Forget forgets an event by its ID, and begins anew with its next call. It reports
// whether there was one, or may be one in what is still to be read.
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

// remove forgets an event. The lock is held.
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

// segmentEvents is how many events are written together.
const segmentEvents = 8

// rewrite has the segment of a slot written again.
func (s *Shapes) rewrite(slot int) { s.persister.MarkChanged(strconv.Itoa(slot / segmentEvents)) }

// sketchOf returns the sketch of an event, a new one perhaps, or nil where there is no
// room for it.
func (s *Shapes) sketchOf(k key, now time.Time) *sketch {
	if e := s.events[k]; e != nil {
		return e
	}
	if len(k.name) > maxName {
		return nil
	}
	if s.ofSource[k.source] >= maxOfSource {
		s.sweep(now, func(e *sketch) bool { return e.source == k.source })
		return nil // the next call of the event may find room
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

// newSketch returns an empty sketch, or nil if there is no room for it.
func (s *Shapes) newSketch(k key) *sketch {
	e := &sketch{key: key{strings.Clone(k.source), strings.Clone(k.typ), strings.Clone(k.name)}, slot: -1, total: &s.bytes}
	if len(s.events) >= maxEvents || !e.take(eventBytes+len(k.source)+len(k.name)) {
		return nil
	}
	s.events[e.key] = e
	s.ofSource[e.source]++
	return e
}

// place gives a sketch the first place that is free to be written at.
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
	// staleAfter is after how long without a call an event may make room for others.
	staleAfter = 24 * time.Hour
	// sweepEvery is how often room is looked for at most.
	sweepEvery = time.Minute
)

// sweep forgets, of some events, the one that was not seen for longest, if that is long
// enough.
func (s *Shapes) sweep(now time.Time, of func(*sketch) bool) {
	if now.Sub(s.swept) < sweepEvery {
		return
	}
	s.swept = now
	var oldest *sketch
	for _, e := range s.events {
		if of(e) && (oldest == nil || e.lastAt < oldest.lastAt) {
			oldest = e
		}
	}
	if oldest != nil && now.Sub(time.UnixMilli(oldest.lastAt)) >= staleAfter {
		s.remove(oldest)
	}
}
