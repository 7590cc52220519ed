package mockserver

import (
	"context"
	"slices"
	"time"
)

const (
	// downAfter is how many calls in a row must fail before a destination is taken
	// to be down.
	downAfter = 10
	// While a destination is down, one call at a time probes it: at first after
	// firstProbe, then after twice as long each time, up to maxProbe.
	firstProbe = time.Second
	maxProbe   = 30 * time.Second
)

// A gate lets calls through to a destination: no more at once than fit, and while
// the destination is down only one now and then. The others wait where they are,
// most of them in the journal, at no cost.
type gate struct {
	clock       Clock
	maxCalls    int // that may be under way at once
	maxRequests int // of these calls, and of those that were decided before all webhooks had answered

	activity

	// What follows is guarded by activity.mu.

	entries  int // that are worked at
	calls    int
	requests int
	failures int // in a row
	pause    time.Duration
	probeAt  time.Time   // zero while the destination is not taken to be down
	probing  bool        // a call is under way to see whether it is back
	waiting  []*gateWait // in the order in which they came
	spare    []*gateWait // that wait no more, to be used again
}

// A gateWait is a call that waits before the gate.
type gateWait struct {
	requests int           // that it needs
	deadline time.Time     // when it gives up
	wake     chan struct{} // holds a token when there is something to look at; never closed
	resting  bool          // its activity does not count
	admitted bool
	pass     pass
}

// A pass is the right of one call to be under way.
type pass struct {
	requests int
	probe    bool
}

func newGate(clock Clock, maxCalls, maxRequests int, poke func()) *gate {
	return &gate{
		clock: clock, maxCalls: maxCalls, maxRequests: maxRequests, activity: activity{poke: poke},
	}
}

// enter waits until a call with so many requests may pass. ok is false if the
// deadline has passed before, or ctx ended. The caller's activity is at rest
// meanwhile; the call that passes is an activity of its own for each request.
func (g *gate) enter(ctx context.Context, requests int, deadline time.Time) (p pass, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	w := g.newWait(requests, deadline)
	defer func() { g.spare = append(g.spare, w) }()
	g.waiting = append(g.waiting, w)
	for {
		g.admit()
		if w.admitted {
			return w.pass, true
		}
		if ctx.Err() != nil || !g.clock.Now().Before(deadline) {
			g.waiting = slices.DeleteFunc(g.waiting, func(other *gateWait) bool { return other == w })
			g.admit() // those that came after it
			return pass{}, false
		}
		g.wait(ctx, w)
	}
}

// newWait makes a wait, or uses one again. The lock is held.
func (g *gate) newWait(requests int, deadline time.Time) *gateWait {
	n := len(g.spare)
	if n == 0 {
		return &gateWait{requests: requests, deadline: deadline, wake: make(chan struct{}, 1)}
	}
	w := g.spare[n-1]
	g.spare = g.spare[:n-1]
	*w = gateWait{requests: requests, deadline: deadline, wake: w.wake}
	return w
}

// admit lets those pass that may, in their order: each place that becomes free
// wakes one call. The lock is held.
func (g *gate) admit() {
	if len(g.waiting) == 0 {
		return
	}
	now := g.clock.Now()
	for i := 0; i < len(g.waiting); {
		w := g.waiting[i]
		switch {
		case !now.Before(w.deadline):
			i++ // its own timer ends it
		case !g.free(w, now):
			return
		default:
			g.waiting = slices.Delete(g.waiting, i, i+1)
			g.pass(w)
		}
	}
}

// pass lets a call pass. The lock is held.
func (g *gate) pass(w *gateWait) {
	w.admitted, w.pass = true, pass{w.requests, !g.probeAt.IsZero()}
	g.probing = g.probing || w.pass.probe
	g.calls++
	g.requests += w.requests
	g.active += w.requests
	g.rouse(w)
}

// rouse makes a call look again that waits. The lock is held.
func (g *gate) rouse(w *gateWait) {
	if w.resting {
		w.resting = false
		g.active++
		w.wake <- struct{}{} // there is room: it is taken before the call rests again
	}
}

// free tells whether a call may pass now. The lock is held.
func (g *gate) free(w *gateWait, now time.Time) bool {
	switch {
	case g.calls >= g.maxCalls, g.requests > 0 && g.requests+w.requests > g.maxRequests:
		return false
	case g.probeAt.IsZero():
		return true
	}
	return !g.probing && !now.Before(g.probeAt)
}

// wait waits until the call is roused, or until it may be time. The lock is held,
// but not meanwhile.
func (g *gate) wait(ctx context.Context, w *gateWait) {
	until := w.deadline
	if !g.probing && g.probeAt.After(g.clock.Now()) {
		until = earlier(until, g.probeAt)
	}
	w.resting = true
	g.active--
	g.mu.Unlock()
	g.poke()
	timer, stop := wakeAt(g.clock, until)
	select {
	case <-timer:
	case <-w.wake:
	case <-ctx.Done():
	}
	stop()
	g.mu.Lock()
	if w.resting {
		w.resting = false
		g.active++
		return
	}
	select {
	case <-w.wake: // it was roused after it had woken by itself
	default:
	}
}

// leave ends a call that enter let through, with what it tells of the
// destination. One that was under way when the destination went down, and failed
// too, tells nothing new. One activity of the call goes on.
func (g *gate) leave(p pass, told tidings) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls--
	down, probeAt, probing := !g.probeAt.IsZero(), g.probeAt, g.probing
	switch {
	case told == itAnswers:
		g.failures, g.pause, g.probeAt, g.probing = 0, 0, time.Time{}, false
	case told == itFails && (p.probe || !down):
		g.fail()
		g.probing = g.probing && !p.probe
	case p.probe:
		g.probing = false
	}
	g.admit()
	if g.probing != probing || !g.probeAt.Equal(probeAt) { // until when they wait is another time
		for _, w := range g.waiting {
			g.rouse(w)
		}
	}
}

// giveBack ends a call that made no request. One activity of it goes on.
func (g *gate) giveBack(p pass) {
	g.mu.Lock()
	g.requests -= p.requests
	g.active -= p.requests - 1
	g.mu.Unlock()
	g.leave(p, nothing)
}

// tidings are what a call tells of its destination.
type tidings uint8

const (
	nothing   tidings = iota
	itAnswers         // if only to refuse the call
	itFails
)

func (g *gate) fail() {
	if g.failures++; g.failures >= downAfter {
		g.pause = min(max(2*g.pause, firstProbe), maxProbe)
		g.probeAt = g.clock.Now().Add(g.pause)
	}
}

// beginEntry and endEntry count the entries that are worked at.
func (g *gate) beginEntry() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.entries++
	g.active++
}

func (g *gate) endEntry() {
	g.mu.Lock()
	g.entries--
	g.mu.Unlock()
	g.end()
}

// requestEnded makes room for another request.
func (g *gate) requestEnded() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.requests--
	g.admit()
}

// rest tells whether nothing goes on at the gate that does not wait for the clock
// to pass now, and until when at most: the zero time is for ever. The lock is held.
func (g *gate) rest(now time.Time) (until time.Time, atRest bool) {
	until, atRest = g.activity.rest(now)
	for _, w := range g.waiting {
		if g.free(w, now) || !now.Before(w.deadline) {
			return time.Time{}, false
		}
		until = earlier(until, w.deadline)
		if !g.probing {
			until = earlier(until, g.probeAt)
		}
	}
	return until, atRest
}
