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
//
// A call that has ended hands its goroutine to the next that may pass: while calls
// wait, none is started or woken for them.
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
	lines    []*gateLine // in which calls wait, in the order in which they came
}

// A gateLine is the calls of one entry before the gate.
type gateLine struct {
	waiting  []*turn       // in their order
	passed   int           // that are under way
	deadline time.Time     // when those that wait give up
	wake     chan struct{} // holds a token when there is something to look at; never closed
	resting  bool          // its activity does not count
}

// A turn is what a call has at the gate: its place in the line, and then its right
// to be under way.
type turn struct {
	call  interface{ run() tidings }
	needs int // requests
	holds int // requests that leave gives back
	probe bool
	line  *gateLine
}

// tidings are what a call tells of its destination when it ends.
type tidings uint8

const (
	nothing   tidings = iota
	itAnswers         // if only to refuse the call
	itFails
	notYet // the call has not begun; it wants another turn
)

func newGate(clock Clock, maxCalls, maxRequests int, poke func()) *gate {
	return &gate{
		clock: clock, maxCalls: maxCalls, maxRequests: maxRequests, activity: activity{poke: poke},
	}
}

// bring runs calls, each as soon as it may pass, until all have ended. It returns
// those that had not passed when ctx ended or the deadline came, and whether that
// was the deadline. The caller's activity is at rest while it waits; each call that
// runs is one of its own.
func (g *gate) bring(ctx context.Context, turns []*turn, deadline time.Time) (left []*turn, late bool) {
	l := &gateLine{waiting: turns, deadline: deadline, wake: make(chan struct{}, 1)}
	for _, t := range turns {
		t.line = l
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(turns) > 0 {
		g.lines = append(g.lines, l)
	}
	for {
		g.admit(nil)
		if len(l.waiting) > 0 && (ctx.Err() != nil || !g.clock.Now().Before(deadline)) {
			left, late = append(left, l.waiting...), ctx.Err() == nil
			l.waiting = nil
			g.leaveLine(l)
			g.admit(nil) // those behind it
		}
		if len(l.waiting) == 0 && l.passed == 0 {
			return left, late
		}
		g.wait(ctx, l)
	}
}

// leaveLine takes a line away in which no call waits any more. The lock is held.
func (g *gate) leaveLine(l *gateLine) {
	g.lines = slices.DeleteFunc(g.lines, func(other *gateLine) bool { return other == l })
}

// admit lets those calls pass that may, in their order. The first goes on where
// the one goes on that has ended, if there is one; it is returned. The lock is held.
func (g *gate) admit(ended *turn) (next *turn) {
	if len(g.lines) == 0 {
		return nil
	}
	now := g.clock.Now()
	for i := 0; i < len(g.lines); {
		l := g.lines[i]
		switch {
		case !now.Before(l.deadline):
			i++ // its own timer ends it
			continue
		case !g.free(l.waiting[0], now):
			return next
		}
		t := g.pass(l)
		if len(l.waiting) == 0 {
			g.lines = slices.Delete(g.lines, i, i+1)
		}
		if next == nil && ended != nil {
			next = t
		} else {
			go g.run(t)
		}
	}
	return next
}

// free tells whether a call may pass now. The lock is held.
func (g *gate) free(t *turn, now time.Time) bool {
	switch {
	case g.calls >= g.maxCalls, g.requests > 0 && g.requests+t.needs > g.maxRequests:
		return false
	case g.probeAt.IsZero():
		return true
	}
	return !g.probing && !now.Before(g.probeAt)
}

// pass lets the first call of a line pass. The lock is held.
func (g *gate) pass(l *gateLine) *turn {
	t := l.waiting[0]
	l.waiting = l.waiting[1:]
	l.passed++
	t.probe = !g.probeAt.IsZero()
	g.probing = g.probing || t.probe
	g.calls++
	t.holds = t.needs
	g.requests += t.holds
	g.active++
	return t
}

// run runs a call that has passed, and then each that its end lets pass.
func (g *gate) run(t *turn) {
	for t != nil {
		t = g.leave(t, t.call.run())
	}
}

// leave ends a call that has passed, with what it tells of the destination, and
// returns the next to run. One that was under way when the destination went down,
// and failed too, tells nothing new.
func (g *gate) leave(t *turn, told tidings) (next *turn) {
	g.mu.Lock()
	g.calls--
	g.requests -= t.holds
	down, probeAt, probing := !g.probeAt.IsZero(), g.probeAt, g.probing
	switch {
	case told == itAnswers:
		g.failures, g.pause, g.probeAt, g.probing = 0, 0, time.Time{}, false
	case told == itFails && (t.probe || !down):
		g.fail()
		g.probing = g.probing && !t.probe
	case t.probe:
		g.probing = false
	}
	l := t.line
	l.passed--
	if told == notYet {
		g.queueAgain(t)
	}
	next = g.admit(t)
	if g.probing != probing || !g.probeAt.Equal(probeAt) { // until when they wait is another time
		for _, l := range g.lines {
			g.rouse(l)
		}
	}
	if len(l.waiting) == 0 && l.passed == 0 {
		g.rouse(l)
	}
	g.active--
	g.mu.Unlock()
	if next == nil {
		g.poke()
	}
	return next
}

// queueAgain lets a call wait that had passed. The lock is held.
func (g *gate) queueAgain(t *turn) {
	l := t.line
	if len(l.waiting) == 0 {
		g.lines = append(g.lines, l)
		g.rouse(l) // it has to look at the time again
	}
	l.waiting = append(l.waiting, t)
}

// fail counts a failure. The lock is held.
func (g *gate) fail() {
	if g.failures++; g.failures >= downAfter {
		g.pause = min(max(2*g.pause, firstProbe), maxProbe)
		g.probeAt = g.clock.Now().Add(g.pause)
	}
}

// split lets the requests of a call that has passed end one by one, each with
// requestEnded and as an activity of its own, of which the call takes over one.
func (g *gate) split(t *turn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.active += t.holds - 1
	t.holds = 0
}

// requestEnded makes room for another request.
func (g *gate) requestEnded() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.requests--
	g.admit(nil)
}

// wait waits until the line is roused, or until it may be time. The lock is held,
// but not meanwhile.
func (g *gate) wait(ctx context.Context, l *gateLine) {
	waiting, until := len(l.waiting) > 0, l.deadline
	if !g.probing && g.probeAt.After(g.clock.Now()) {
		until = earlier(until, g.probeAt)
	}
	l.resting = true
	g.active--
	g.mu.Unlock()
	g.poke()
	if waiting {
		timer, stop := wakeAt(g.clock, until)
		select {
		case <-timer:
		case <-l.wake:
		case <-ctx.Done():
		}
		stop()
	} else {
		<-l.wake
	}
	g.mu.Lock()
	if l.resting {
		l.resting = false
		g.active++
		return
	}
	select {
	case <-l.wake: // it was roused after it had woken by itself
	default:
	}
}

// rouse makes a line look again that waits. The lock is held.
func (g *gate) rouse(l *gateLine) {
	if l.resting {
		l.resting = false
		g.active++
		l.wake <- struct{}{} // there is room: it is taken before the line rests again
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

// rest tells whether nothing goes on at the gate that does not wait for the clock
// to pass now, and until when at most: the zero time is for ever. The lock is held.
func (g *gate) rest(now time.Time) (until time.Time, atRest bool) {
	until, atRest = g.activity.rest(now)
	for _, l := range g.lines {
		if g.free(l.waiting[0], now) || !now.Before(l.deadline) {
			return time.Time{}, false
		}
		until = earlier(until, l.deadline)
		if !g.probing {
			until = earlier(until, g.probeAt)
		}
	}
	return until, atRest
}
