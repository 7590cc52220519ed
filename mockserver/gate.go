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
	changed     func(down bool, why string)

	room chan struct{} // holds a token when there may be room for another entry; never closed

	activity

	// What follows is guarded by activity.mu.

	entries  int // that are worked at
	held     int // the calls of these
	leased   int // entries of these that have not come to bring
	calls    int
	requests int
	failures int // in a row
	pause    time.Duration
	probeAt  time.Time   // zero while the destination is not taken to be down
	probe    *turn       // the call under way that shows whether it is back, or nil
	lines    []*gateLine // in which calls wait; the first is the next to let one pass
}

// A gateLine is the calls of one entry before the gate. The lines take turns, so
// that neither many calls nor calls that all fail keep those of other entries back.
type gateLine struct {
	ctx      context.Context // those that wait give up when it ends
	deadline time.Time       // or then
	waiting  []*turn         // in their order
	passed   int             // that are under way
	wake     chan struct{}   // holds a token when there is something to look at; never closed
	resting  bool            // its activity does not count
}

// over tells whether those that wait are to give up: bring sees to that.
func (l *gateLine) over(now time.Time) bool {
	return l.ctx.Err() != nil || !now.Before(l.deadline)
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

// tidings are what a call tells of its destination when it ends.
type tidings uint8

const (
	nothing      tidings = iota
	itAnswers            // if only to refuse the call
	itFails              // to take a new call
	itFailsAgain         // to take one that failed before: that may be the call's fault
)

// newGate returns a gate. It calls changed when the destination is taken to be down,
// with what a call failed with, and when it no longer is.
func newGate(clock Clock, maxCalls, maxRequests int, poke func(), changed func(down bool, why string)) *gate {
	return &gate{
		clock: clock, maxCalls: maxCalls, maxRequests: maxRequests, changed: changed,
		room: make(chan struct{}, 1), activity: activity{poke: poke},
	}
}

// bring runs calls, each as soon as it may pass, until all have ended. It returns
// those that had not passed when ctx ended or the deadline came, and whether that
// was the deadline. The caller's activity is at rest while it waits; each call that
// runs is one of its own.
func (g *gate) bring(ctx context.Context, turns []*turn, deadline time.Time) (left []*turn, late bool) {
	l := &gateLine{ctx: ctx, deadline: deadline, waiting: turns, wake: make(chan struct{}, 1)}
	for _, t := range turns {
		t.line = l
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leased--
	if len(turns) > 0 {
		g.lines = append(g.lines, l)
	}
	for g.admit(); len(l.waiting)+l.passed > 0; g.admit() {
		g.wait(l)
		if len(l.waiting) > 0 && l.over(g.clock.Now()) {
			left, late = l.waiting, ctx.Err() == nil
			l.waiting = nil
			g.lines = slices.DeleteFunc(g.lines, func(other *gateLine) bool { return other == l })
		}
	}
	return left, late
}

// admit starts the calls that may pass, and sees whether there is room for more
// entries then. The lock is held.
func (g *gate) admit() {
	for t := g.next(); t != nil; t = g.next() {
		go g.run(t)
	}
	g.offerRoom()
}

// next lets the call pass whose turn it is, if it may. One that needs more requests
// than there is room for is not passed by others. The lock is held.
func (g *gate) next() *turn {
	if len(g.lines) == 0 {
		return nil
	}
	l, now := g.lines[0], g.clock.Now()
	if l.over(now) || !g.free(l.waiting[0], now) {
		return nil
	}
	t := l.waiting[0]
	l.waiting = l.waiting[1:]
	g.lines = slices.Delete(g.lines, 0, 1)
	if len(l.waiting) > 0 {
		g.lines = append(g.lines, l)
	}
	g.pass(t)
	return t
}

// free tells whether a call may pass now. The lock is held.
func (g *gate) free(t *turn, now time.Time) bool {
	switch {
	case g.calls >= g.maxCalls, g.requests > 0 && g.requests+t.needs > g.maxRequests:
		return false
	case g.probeAt.IsZero():
		return true
	}
	return g.probe == nil && !now.Before(g.probeAt)
}

// pass lets a call pass. The lock is held.
func (g *gate) pass(t *turn) {
	if !g.probeAt.IsZero() {
		g.probe = t
	}
	g.calls++
	t.holds = t.needs
	g.requests += t.holds
	t.line.passed++
	g.active++
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
	down := !g.probeAt.IsZero()
	g.learn(t, told)
	next = g.next()
	g.admit()
	isDown := !g.probeAt.IsZero()
	if down || isDown { // until when they wait may be another time
		for _, waiting := range g.lines {
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
	if isDown != down {
		g.changed(isDown, why)
	}
	return next
}

// learn takes in what a call tells of the destination. One that was under way when
// the destination went down, and failed too, tells nothing new. The lock is held.
func (g *gate) learn(t *turn, told tidings) {
	probe := g.probe == t
	if probe || told == itAnswers {
		g.probe = nil
	}
	switch {
	case told == itAnswers:
		g.failures, g.pause, g.probeAt = 0, 0, time.Time{}
	case told == itFails && g.probeAt.IsZero(), probe && told != nothing:
		if g.failures++; g.failures >= downAfter {
			g.pause = min(max(2*g.pause, firstProbe), maxProbe)
			g.probeAt = g.clock.Now().Add(g.pause)
		}
	}
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

// until tells when a line that waits has to look again, if it is not roused before.
// The lock is held.
func (g *gate) until(l *gateLine, now time.Time) time.Time {
	if g.probeAt.After(now) {
		return earlier(l.deadline, g.probeAt)
	}
	return l.deadline
}

// wait waits until the line is roused, or has to look. The lock is held, but not
// meanwhile.
func (g *gate) wait(l *gateLine) {
	waiting, until := len(l.waiting) > 0, g.until(l, g.clock.Now())
	l.resting = true
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
func (g *gate) beginEntry(calls int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.entries++
	g.held += calls
	g.leased++
	g.active++
}

func (g *gate) endEntry(calls int) {
	g.mu.Lock()
	g.entries--
	g.held -= calls
	g.offerRoom()
	g.mu.Unlock()
	g.end()
}

// awaitRoom waits until another entry should be worked at. It returns ctx's error
// if that ends before.
func (g *gate) awaitRoom(ctx context.Context) error {
	for ctx.Err() == nil {
		g.mu.Lock()
		room := g.hasRoom()
		g.mu.Unlock()
		if room {
			return nil
		}
		select {
		case <-g.room:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// offerRoom ends awaitRoom if there is room. The lock is held.
func (g *gate) offerRoom() {
	if !g.hasRoom() {
		return
	}
	select {
	case g.room <- struct{}{}:
	default: // it will look anyway
	}
}

// hasRoom tells whether another entry should be worked at: there are few of them, or
// of their calls are fewer under way than may be, and none waits. The lock is held.
func (g *gate) hasRoom() bool {
	idle := g.leased == 0 && len(g.lines) == 0 && g.calls < g.maxCalls
	return g.entries < leases || idle && g.entries < g.maxCalls && g.held <= heldCalls
}

// rest tells whether nothing goes on at the gate that does not wait for the clock
// to pass now, and until when at most: the zero time is for ever. The lock is held.
func (g *gate) rest(now time.Time) (until time.Time, atRest bool) {
	until, atRest = g.activity.rest(now)
	for i, l := range g.lines {
		if l.over(now) || i == 0 && g.free(l.waiting[0], now) {
			return time.Time{}, false
		}
		until = earlier(until, g.until(l, now))
	}
	return until, atRest
}
