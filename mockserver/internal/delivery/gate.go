package delivery

import (
	"context"
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
)

// A gate admits calls to a destination, so many at once: a breaker and a limiter say when
// one may begin, a fair queue which is next, and an intake which entries are leased for that.
// The calls that wait for a destination that cannot be reached give up at once: they
// wait in the journal, at no cost.
//
// A call is run by a goroutine that then runs the next one that may begin: while calls
// wait, none is started or woken for them.
type gate struct {
	changed   func(is breakerState, cause string)
	recovered func() // called when a call is answered after many have failed

	mu       sync.Mutex // guards what follows
	maxCalls int        // under way at once
	calls    int        // under way
	missed   int        // calls that have failed in a row, also those that had failed before
	breaker  breaker
	limiter  limiter
	queue    fairQueue
	intake   intake
	probe    *ticket // of the call under way that shows whether the destination can be reached, or nil
}

// newGate returns a gate. It calls changed when the state of the destination changes,
// with what a call failed with.
func newGate(maxCalls int, changed func(is breakerState, cause string)) *gate {
	return &gate{maxCalls: maxCalls, changed: changed, recovered: func() {}, queue: newFairQueue(maxCalls)}
}

// configure changes how many calls may be under way at once, and how many may begin in a
// second, where 0 is no limit. another says that the receiver is another one: what the
// one before asked for counts no more.
func (g *gate) configure(maxCalls int, perSecond float64, another bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.maxCalls = maxCalls
	g.queue.setMaxCalls(maxCalls)
	g.limiter.setRate(perSecond)
	if another {
		g.limiter.release()
	}
	g.admit()
	for waiting := range g.queue.all { // until when they wait may be another time
		waiting.signal()
	}
}

// hold lets no call begin before a time.
func (g *gate) hold(until time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.limiter.hold(until) // calls that wait for another to end find it then
}

// run runs the calls of an entry, each as soon as it is admitted, until all have ended.
// It returns those that were not admitted before ctx ended, the deadline came or the
// destination could not be reached, and whether it was the deadline. The entry must
// have begun.
func (g *gate) run(ctx context.Context, lane laneKey, tickets []*ticket, deadline time.Time) (left []*ticket, late bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.intake.arrive()
	return g.runLocked(ctx, lane, tickets, deadline)
}

// runOne runs one call of an entry for which arrive is called, as run does.
func (g *gate) runOne(ctx context.Context, lane laneKey, t *ticket, deadline time.Time) (late bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, late = g.runLocked(ctx, lane, []*ticket{t}, deadline)
	return late
}

// arrive says that the calls of an entry come one by one, to runOne.
func (g *gate) arrive() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.intake.arrive()
	g.offerRoom()
}

// runLocked runs calls. The lock is held, but not while it waits.
func (g *gate) runLocked(ctx context.Context, lane laneKey, tickets []*ticket, deadline time.Time) (left []*ticket, late bool) {
	l := &gateLine{lane: lane, ctx: ctx, deadline: deadline, waiting: tickets, wake: make(chan struct{}, 1)}
	for _, t := range tickets {
		t.line = l
	}
	if len(tickets) > 0 {
		g.queue.push(l)
	}
	for g.admit(); len(l.waiting)+l.underWay > 0; g.admit() {
		if now := time.Now(); len(l.waiting) > 0 && g.expired(l, now) {
			left, late = l.waiting, ctx.Err() == nil && !now.Before(deadline)
			l.waiting = nil
			g.queue.remove(l)
			continue
		}
		g.wait(l)
	}
	return left, late
}

// expired reports whether the calls of a line that wait should give up: run sees to
// that. The lock is held.
func (g *gate) expired(l *gateLine, now time.Time) bool {
	return l.ctx.Err() != nil || !now.Before(l.deadline) || g.isShut(now)
}

// isShut reports whether the destination cannot be reached and no probe is under way or
// due. The lock is held.
func (g *gate) isShut(now time.Time) bool {
	return g.breaker.state() == unreachable && g.probe == nil && !g.breaker.next(now).IsZero()
}

// admit starts the calls that may begin, and sees whether there is room for more
// entries then. The lock is held.
func (g *gate) admit() {
	for t := g.next(); t != nil; t = g.next() {
		go g.work(t)
	}
	if g.breaker.state() != working || g.limiter.isActive() {
		if l := g.queue.next(); l != nil && g.until(l, time.Now()).Before(l.until) {
			l.signal() // a call of it may begin sooner than it looks
		}
	}
	g.offerRoom()
}

// next begins the call whose turn it is, if it may. The lock is held.
func (g *gate) next() *ticket {
	if g.calls >= g.maxCalls {
		return nil
	}
	l := g.queue.next()
	if l == nil {
		return nil
	}
	now := time.Now()
	if g.expired(l, now) || g.probe != nil || !g.startAt(now).IsZero() {
		return nil
	}
	t := g.queue.pop(l)
	if g.breaker.state() == unreachable {
		g.probe = t
	}
	g.breaker.begin(now)
	g.limiter.begin(now)
	g.calls++
	l.underWay++
	return t
}

// work runs a call that has begun, and then each that its end lets begin.
func (g *gate) work(t *ticket) {
	for t != nil {
		o, cause := t.call.run()
		t = g.end(t, o, cause)
	}
}

// end ends a call, and returns the next to run.
func (g *gate) end(t *ticket, o outcome, cause string) (next *ticket) {
	g.mu.Lock()
	l := t.line
	l.underWay--
	g.calls--
	g.queue.done(l, o)
	recovered := o == outcomeAnswered && g.missed >= downAfter
	switch o {
	case outcomeAnswered:
		g.missed = 0
	case outcomeUnknown:
	default:
		g.missed++
	}
	was, probe := g.breaker.state(), g.probe == t
	g.breaker.record(o, probe, time.Now())
	is := g.breaker.state()
	if probe || is != unreachable {
		g.probe = nil
	}
	next = g.next()
	g.admit()
	if is != was || probe { // until when they wait may be another time
		for waiting := range g.queue.all {
			waiting.signal()
		}
	}
	if len(l.waiting)+l.underWay == 0 {
		l.signal()
	}
	g.mu.Unlock()
	if is != was {
		g.changed(is, cause)
	}
	if recovered {
		g.recovered()
	}
	return next
}

// startAt returns when a call may begin; the zero time means now. The lock is held.
func (g *gate) startAt(now time.Time) time.Time {
	at := g.breaker.next(now)
	if limit := g.limiter.next(now); limit.After(at) {
		return limit
	}
	return at
}

// until returns when a line that waits has to look again, if it is not signaled before.
// The lock is held.
func (g *gate) until(l *gateLine, now time.Time) time.Time {
	if at := g.startAt(now); g.probe == nil && !at.IsZero() && at.Before(l.deadline) {
		return at
	}
	return l.deadline
}

// wait waits until the line is signaled, or calls of it wait and have to look. The lock is
// held, but not meanwhile.
func (g *gate) wait(l *gateLine) {
	ctx := context.Background() // calls under way are waited for in any case
	l.until = time.Time{}
	if len(l.waiting) > 0 {
		ctx, l.until = l.ctx, g.until(l, time.Now())
	}
	g.mu.Unlock()
	defer g.mu.Lock()
	pause.Until(ctx, l.until, l.wake)
}

// beginEntry counts an entry that is worked at. It comes to run.
func (g *gate) beginEntry(lane laneKey, calls int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.queue.begin(lane)
	g.intake.begin(calls)
}

// endEntry counts an entry less.
func (g *gate) endEntry(lane laneKey, calls int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.intake.end(calls, g.queue.end(lane))
	g.offerRoom()
}

// want returns which entries should be leased beside those that are worked at. If it is
// not ok there are none, and at is when there may be: the zero time if that is not
// known. When more is wanted, more is called, once and without waiting for it.
func (g *gate) want(more func()) (w journal.Want, at time.Time, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.breaker.state() == unreachable:
		at = g.breaker.next(time.Now())
		ok = at.IsZero() && g.isIdle()
	case g.intake.takesAny(g.isIdle()):
		ok = true
	case g.intake.takesOtherLanes():
		w, ok = g.queue.others(), true
	}
	g.intake.notify(more, ok)
	w.InOrder = g.intake.inOrder
	return w, at, ok
}

// setInOrder says whether entries are leased in the order of their positions from now on.
func (g *gate) setInOrder(inOrder bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.intake.inOrder = inOrder
}

// offerRoom notifies the worker if more is wanted than want returned. The lock is held.
func (g *gate) offerRoom() {
	if g.intake.more == nil {
		return
	}
	more := g.intake.takesAny(g.isIdle()) || g.intake.hasNewLane()
	if g.breaker.state() == unreachable {
		more = g.isIdle() // when the next probe is due may be known now
	}
	if more {
		g.intake.wantMore()
	}
}

// isIdle reports whether no call waits, no entry is about to bring some, and there is
// room for one. The lock is held.
func (g *gate) isIdle() bool {
	return g.intake.arriving == 0 && g.queue.lines == 0 && g.probe == nil && g.calls < g.maxCalls
}

// state returns the state of the breaker, how many calls failed in a row, when the next
// probe is due while the destination cannot be reached, and until when it is held.
func (g *gate) state() (is breakerState, failures int, probeAt, heldUntil time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := &g.breaker
	if g.limiter.heldUntil.After(time.Now()) {
		heldUntil = g.limiter.heldUntil
	}
	return b.state(), max(b.failed, b.missed), b.probeAt, heldUntil
}
