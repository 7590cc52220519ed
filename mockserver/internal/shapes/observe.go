package shapes

import (
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// Observe implements event.Observer.
func (s *Shapes) Observe(e event.Event) {
	accepted, ok := e.(event.Accepted)
	if !ok {
		return
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens.refill(now)
	var last *sketch
	for i := range accepted.Calls {
		c := &accepted.Calls[i]
		k, ok := keyOf(c)
		if !ok {
			continue
		}
		if last == nil || last.key != k {
			if last = s.sketchOf(k, now); last == nil {
				s.others++
				continue
			}
		}
		s.add(last, c, now)
	}
}

// add counts a call, and looks at it if there are tokens for it.
func (s *Shapes) add(e *sketch, c *tracking.Call, now time.Time) {
	at := c.ReceivedAt.UnixMilli()
	e.calls++
	e.changed = true
	seen(&e.firstAt, &e.lastAt, at)
	e.violate(room{&s.bytes}, c, at)
	if second := now.Unix(); e.second != second {
		e.second, e.inIt = second, 0
	}
	if s.tokens.take(1+float64(len(c.Body))/tokenBytes, e.inIt) {
		e.inIt++
		e.look(room{&s.bytes}, c, at)
	}
}
