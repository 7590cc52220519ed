package mockserver

import (
	"context"
	"time"
)

// A gate lets calls through to a destination: no more at once than fit, and as the
// breaker says. Which of them is next, lanes decide. Calls that wait for a destination
// that cannot be reached give up at once: they wait in the journal, at no cost.
//
// A call that has ended hands its goroutine to the next that may pass: while calls
// wait, none is started or woken for them.
type gate struct {
	clock       Clock
	maxCalls    int // that may be under way at once
	maxRequests int // of these calls, and of those that were decided before all webhooks had answered
	changed     func(is breakerState, why string)

	activity

	// What follows is guarded by activity.mu.

	breaker  breaker
	lanes    lanes
	entries  int // that are worked at
	held     int // the calls of these
	leased   int // entries of these that have not come to bring
	calls    int
	requests int
	probe    *turn // the call under way that shows whether the destination can be reached, or nil

	look   func() // called when more is wanted than want returned last; nil if it is not to be
	narrow bool   // want returned something
	ended  bool   // the last entry of a lane has ended since
}

// A gateLine is the calls of one entry before the gate.
type gateLine struct {
	lane     laneKey
	ctx      context.Context // those that wait give up when it ends
	deadline time.Time       // or then
	waiting  []*turn         // in their order
	passed   int             // that are under way
	wake     chan struct{}   // holds a token when there is something to look at; never closed
	resting  bool            // its activity does not count
	until    time.Time       // while it rests: when it looks by itself
}

// A turn is what a call has at the gate: its place in the line, and then its right
// to be under way.
type turn struct {
	call  interface{ run() tidings }
	needs int // requests, at least 1
	holds int // requests that leave gives back
	line  *gateLine
	why   string // it failed, without a URL, which may hold a secret
}

// newGate returns a gate. It calls changed when the destination is taken to do
// otherwise than before, with what a call failed with.
func newGate(clock Clock, maxCalls, maxRequests int, poke func(), changed func(is breakerState, why string)) *gate {
	return &gate{
		clock: clock, maxCalls: maxCalls, maxRequests: maxRequests, changed: changed, activity: activity{poke: poke},
		lanes: lanes{most: max(1, maxCalls*3/4)},
	}
}

// bring runs the calls of an entry, each as soon as it may pass, until all have ended.
// It returns those that had not passed when ctx ended, the deadline came or the
// destination could not be reached, and whether that was the deadline. The caller's
// activity is at rest while it waits; each call that runs is one of its own.
func (g *gate) bring(ctx context.Context, lane laneKey, turns []*turn, deadline time.Time) (left []*turn, late bool) {
	l := &gateLine{lane: lane, ctx: ctx, deadline: deadline, waiting: turns, wake: make(chan struct{}, 1)}
	for _, t := range turns {
		t.line = l
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leased--
	if len(turns) > 0 {
		g.lanes.wait(l)
	}
	for g.admit(); len(l.waiting)+l.passed > 0; g.admit() {
		if now := g.clock.Now(); len(l.waiting) > 0 && g.over(l, now) {
			left, late = l.waiting, ctx.Err() == nil && !now.Before(deadline)
			l.waiting = nil
			g.lanes.remove(l)
			continue
		}
		g.wait(l)
	}
	return left, late
}

// over reports whether the calls of a line that wait are to give up: bring sees to
// that. The lock is held.
func (g *gate) over(l *gateLine, now time.Time) bool {
	return l.ctx.Err() != nil || !now.Before(l.deadline) || g.isShut(now)
}

// isShut reports whether the destination cannot be reached and it is not to be looked
// now whether it can. The lock is held.
func (g *gate) isShut(now time.Time) bool {
	return g.breaker.state() == unreachable && g.probe == nil && !g.breaker.next(now).IsZero()
}

// admit starts the calls that may pass, and sees whether there is room for more
// entries then. The lock is held.
func (g *gate) admit() {
	for t := g.next(); t != nil; t = g.next() {
		go g.run(t)
	}
	if g.breaker.state() != working {
		if l := g.lanes.next(); l != nil && l.resting && g.until(l, g.clock.Now()).Before(l.until) {
			g.rouse(l) // it is to let one pass sooner than it looks
		}
	}
	g.offerRoom()
}

// next lets the call pass whose turn it is, if it may. One that needs more requests
// than there is room for is not passed by others. The lock is held.
func (g *gate) next() *turn {
	if g.calls >= g.maxCalls {
		return nil
	}
	l := g.lanes.next()
	if l == nil {
		return nil
	}
	now := g.clock.Now()
	if g.over(l, now) || !g.free(l.waiting[0], now) {
		return nil
	}
	t := g.lanes.pass(l)
	if g.breaker.state() == unreachable {
		g.probe = t
	}
	g.breaker.passed(now)
	g.calls++
	t.holds = t.needs
	g.requests += t.holds
	l.passed++
	g.active++
	return t
}

// free reports whether a call may pass now. The lock is held.
func (g *gate) free(t *turn, now time.Time) bool {
	return g.calls < g.maxCalls && (g.requests == 0 || g.requests+t.needs <= g.maxRequests) &&
		g.probe == nil && g.breaker.next(now).IsZero()
}

// run runs a call that has passed, and then each that its end lets pass.
func (g *gate) run(t *turn) {
	for t != nil {
		t = g.leave(t, t.call.run())
	}
}

// leave ends a call that has passed, and returns the next to run.
func (g *gate) leave(t *turn, told tidings) (next *turn) {
	g.mu.Lock()
	g.calls--
	g.requests -= t.holds
	l := t.line
	l.passed--
	g.lanes.leave(l, told)
	was, probe := g.breaker.state(), g.probe == t
	g.breaker.learn(told, probe, g.clock.Now())
	is := g.breaker.state()
	if probe || is != unreachable {
		g.probe = nil
	}
	next = g.next()
	g.admit()
	if is != was || probe { // until when they wait may be another time
		for waiting := range g.lanes.waiting {
			g.rouse(waiting)
		}
	}
	if len(l.waiting)+l.passed == 0 {
		g.rouse(l)
	}
	g.active--
	why := t.why
	g.mu.Unlock()
	if next == nil {
		g.poke()
	}
	if is != was {
		g.changed(is, why)
	}
	return next
}

// split lets a call that has passed make so many requests, which end one by one,
// each with requestEnded and as an activity of its own, of which the call takes over
// one.
func (g *gate) split(t *turn, requests int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.requests += requests - t.holds
	t.holds = 0
	g.active += requests - 1
}

// requestEnded makes room for another request.
func (g *gate) requestEnded() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.requests--
	g.admit()
}

// until returns when a line that waits has to look again, if it is not roused before.
// The lock is held.
func (g *gate) until(l *gateLine, now time.Time) time.Time {
	if g.probe != nil {
		return l.deadline
	}
	return earlier(l.deadline, g.breaker.next(now))
}

// wait waits until the line is roused, or has to look. The lock is held, but not
// meanwhile.
func (g *gate) wait(l *gateLine) {
	waiting := len(l.waiting) > 0
	l.resting, l.until = true, g.until(l, g.clock.Now())
	until := l.until
	g.active--
	g.mu.Unlock()
	g.poke()
	if waiting {
		timer, stop := wakeAt(g.clock, until)
		select {
		case <-timer:
		case <-l.wake:
		case <-l.ctx.Done():
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

// beginEntry and endEntry count the entries that are worked at. One that has begun
// comes to bring.
func (g *gate) beginEntry(lane laneKey, calls int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lanes.begin(lane)
	g.look = nil
	g.entries++
	g.held += calls
	g.leased++
	g.active++
}

func (g *gate) endEntry(lane laneKey, calls int) {
	g.mu.Lock()
	if g.lanes.end(lane) {
		g.ended = true
	}
	g.entries--
	g.held -= calls
	g.offerRoom()
	g.mu.Unlock()
	g.end()
}

// want returns which entries should be worked at beside those that are. If it is not
// ok there are none, and at is when there may be: the zero time if that is not known.
// When more is wanted look is called, once, and without waiting for it.
func (g *gate) want(look func()) (w Want, at time.Time, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	w, at, ok = g.wanted(g.clock.Now())
	g.look, g.narrow, g.ended = look, ok, false
	return w, at, ok
}

// wanted is want with the lock held.
func (g *gate) wanted(now time.Time) (w Want, at time.Time, ok bool) {
	switch {
	case g.breaker.state() == unreachable:
		at = g.breaker.next(now)
		return w, at, at.IsZero() && g.isIdle()
	case g.hasRoom():
		return w, at, true
	case g.entries < maxEntries:
		return g.lanes.taken(), at, true
	}
	return w, at, false
}

// offerRoom calls look if more is wanted than before. The lock is held.
func (g *gate) offerRoom() {
	if g.look == nil {
		return
	}
	more := g.hasRoom() || g.entries < maxEntries && (g.ended || !g.narrow)
	if g.breaker.state() == unreachable {
		more = g.isIdle() // when the next is to be tried may be known now
	}
	if more {
		g.look()
		g.look = nil
	}
}

// isIdle reports whether no call waits, and no entry is about to bring some, and there
// is room for one. The lock is held.
func (g *gate) isIdle() bool {
	return g.leased == 0 && g.lanes.lines == 0 && g.probe == nil && g.calls < g.maxCalls
}

// hasRoom reports whether another entry should be worked at, whichever it is: there are
// few of them, or of their calls are fewer under way than may be, and none waits. The
// lock is held.
func (g *gate) hasRoom() bool {
	return g.entries < leases || g.isIdle() && g.entries < g.maxCalls && g.held <= heldCalls
}

// rest tells whether nothing goes on at the gate that does not wait for the clock
// to pass now, and until when at most: the zero time is for ever. The lock is held.
func (g *gate) rest(now time.Time) (until time.Time, atRest bool) {
	until, atRest = g.activity.rest(now)
	for l := range g.lanes.waiting {
		if g.over(l, now) {
			return time.Time{}, false
		}
		until = earlier(until, g.until(l, now))
	}
	if l := g.lanes.next(); l != nil && g.free(l.waiting[0], now) {
		return time.Time{}, false
	}
	return until, atRest
}
