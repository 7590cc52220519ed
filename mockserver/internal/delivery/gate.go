package delivery

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
)

// settledAfter is how long a recovery must last. A destination that fails most of its calls recovers
// often, but briefly.
const settledAfter = 10 * time.Second

// A gate limits the calls of a destination in flight. The breaker and the limiter decide when a
// call may begin, the fair queue selects the next call, and the intake selects the entries to
// lease. If the destination is unreachable, waiting calls return to the journal.
//
// When a call ends, its goroutine runs the next waiting call, so busy gates start and wake no
// goroutines.
type gate struct {
	changed   func(is breakerState, cause string)
	recovered func() // called when a webhook responds after many failures

	mu       sync.Mutex // guards the fields below
	maxCalls int        // maximum number of calls in flight
	calls    int        // number of calls in flight
	missed   int        // number of consecutive failed requests, including retries
	began    time.Time  // when the gate was created
	recovery time.Time  // when the destination last succeeded after downAfter failures in a row, or zero
	breaker  breaker
	limiter  limiter
	queue    fairQueue
	intake   intake
	probe    *ticket // probe in flight to an unreachable destination, or nil
}

// newGate returns a gate. It calls changed with the new breaker state and the cause.
func newGate(maxCalls int, changed func(is breakerState, cause string)) *gate {
	return &gate{maxCalls: maxCalls, changed: changed, recovered: func() {}, began: time.Now(), queue: newFairQueue(maxCalls)}
}

// configure sets the maximum number of calls in flight and the maximum rate in calls per
// second; 0 is unlimited. another reports that the receiver has changed, which ends a pause.
func (g *gate) configure(maxCalls int, perSecond float64, another bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.maxCalls, g.intake.maxCalls = maxCalls, maxCalls
	g.queue.setMaxCalls(maxCalls)
	g.limiter.setRate(perSecond)
	if another {
		g.limiter.release()
	}
	for waiting := range g.queue.all { // their calls may begin now, or their deadlines have changed
		waiting.signal()
	}
}

// pauseUntil pauses new calls until a time.
func (g *gate) pauseUntil(until time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.limiter.pauseUntil(until) // waiting calls notice the pause when another call ends
}

// run runs the calls of an entry as they are admitted, and returns when all running calls have
// ended. It returns the calls that were not admitted because ctx was canceled, the deadline
// passed, or the destination is unreachable. late reports that the deadline passed. The caller
// must call beginEntry first.
func (g *gate) run(ctx context.Context, lane laneKey, tickets []*ticket, deadline time.Time) (left []*ticket, late bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.intake.arrive()
	return g.runLocked(ctx, lane, tickets, deadline)
}

// runOne is like run for one call. The caller must call arrive for the entry first.
func (g *gate) runOne(ctx context.Context, lane laneKey, t *ticket, deadline time.Time) (late bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, late = g.runLocked(ctx, lane, []*ticket{t}, deadline)
	return late
}

// arrive reports that the calls of an entry have reached the gate and will be passed to runOne.
func (g *gate) arrive() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.intake.arrive()
	g.offerRoom()
}

// runLocked is like run. The caller must hold the lock; runLocked releases it while it waits.
func (g *gate) runLocked(ctx context.Context, lane laneKey, tickets []*ticket, deadline time.Time) (left []*ticket, late bool) {
	e := &gateEntry{lane: lane, ctx: ctx, deadline: deadline, waiting: tickets, wake: make(chan struct{}, 1)}
	for _, t := range tickets {
		t.entry = e
	}
	if len(tickets) > 0 {
		g.queue.push(e)
	}
	for g.admit(); len(e.waiting)+e.inFlight > 0; g.admit() {
		if now := time.Now(); len(e.waiting) > 0 && g.expired(e, now) {
			left, late = e.waiting, ctx.Err() == nil && !now.Before(deadline)
			e.waiting = nil
			g.queue.remove(e)
			continue
		}
		g.wait(e)
	}
	return left, late
}

// expired reports whether the waiting calls of an entry must return. The lock is held.
func (g *gate) expired(e *gateEntry, now time.Time) bool {
	return e.ctx.Err() != nil || !now.Before(e.deadline) || g.isShut(now)
}

// isOpen reports whether an admitted call may still begin: the destination may have been paused since.
func (g *gate) isOpen(t *ticket) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return t.entry.ctx.Err() == nil && !g.limiter.isPaused(time.Now())
}

// isPaused reports whether a receiver has requested a pause that has not ended.
func (g *gate) isPaused() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.limiter.isPaused(time.Now())
}

// isShut reports whether the destination is unreachable and no probe is in flight or scheduled
// for now. The lock is held.
func (g *gate) isShut(now time.Time) bool {
	return g.breaker.state() == unreachable && g.probe == nil && !g.breaker.next(now).IsZero()
}

// admit starts the calls that may begin, and notifies the worker if more entries are wanted.
// The lock is held.
func (g *gate) admit() {
	for t := g.next(); t != nil; t = g.next() {
		go g.work(t)
	}
	if g.breaker.state() != working || g.limiter.isActive() {
		if e := g.queue.next(); e != nil && g.until(e, time.Now()).Before(e.until) {
			e.signal() // the entry's next call may begin earlier than expected
		}
	}
	g.offerRoom()
}

// next begins the next call of the fair queue, if it may begin. The lock is held.
func (g *gate) next() *ticket {
	if g.calls >= g.maxCalls {
		return nil
	}
	e := g.queue.next()
	if e == nil {
		return nil
	}
	now := time.Now()
	if g.expired(e, now) || g.probe != nil || !g.startAt(now).IsZero() {
		return nil
	}
	t := g.queue.pop(e)
	if g.breaker.state() == unreachable {
		g.probe = t
	}
	g.breaker.begin(now)
	g.limiter.begin(now)
	g.calls++
	e.inFlight++
	return t
}

// work runs a call, and then the calls that may begin after it.
func (g *gate) work(t *ticket) {
	for t != nil {
		o, cause := t.call.run()
		t = g.end(t, o, cause)
	}
}

// end records the end of a call and returns the next call to run.
func (g *gate) end(t *ticket, o outcome, cause string) (next *ticket) {
	g.mu.Lock()
	e := t.entry
	e.inFlight--
	g.calls--
	g.queue.done(e, o)
	recovered := o == outcomeWorking && g.missed >= downAfter
	if recovered {
		g.recovery = time.Now()
	}
	switch {
	case o == outcomeWorking:
		g.missed = 0
	case o != outcomeUnknown && !t.shared:
		g.missed++
	}
	was, probe := g.breaker.state(), g.probe == t
	g.breaker.record(o, probe, t.shared, time.Now())
	is := g.breaker.state()
	if probe || is != unreachable {
		g.probe = nil
	}
	next = g.next()
	g.admit()
	if is != was || probe { // the deadlines of waiting entries may have changed
		for waiting := range g.queue.all {
			waiting.signal()
		}
	}
	if len(e.waiting)+e.inFlight == 0 {
		e.signal()
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

// startAt returns the earliest time at which a call may begin. The zero time means now. The
// lock is held.
func (g *gate) startAt(now time.Time) time.Time {
	at := g.breaker.next(now)
	if limit := g.limiter.next(now); limit.After(at) {
		return limit
	}
	return at
}

// until returns the time at which a waiting entry must check again without a signal. The lock
// is held.
func (g *gate) until(e *gateEntry, now time.Time) time.Time {
	if at := g.startAt(now); g.probe == nil && !at.IsZero() && at.Before(e.deadline) {
		return at
	}
	return e.deadline
}

// wait waits for a signal, or until the entry must check again. It releases the lock while it
// waits.
func (g *gate) wait(e *gateEntry) {
	ctx := context.Background() // calls in flight must end first
	e.until = time.Time{}
	if len(e.waiting) > 0 {
		ctx, e.until = e.ctx, g.until(e, time.Now())
	}
	g.mu.Unlock()
	defer g.mu.Lock()
	pause.Until(ctx, e.until, e.wake)
}

// beginEntry adds a leased entry.
func (g *gate) beginEntry(lane laneKey, calls int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.queue.begin(lane)
	g.intake.begin(calls)
}

// endEntry removes an entry.
func (g *gate) endEntry(lane laneKey, calls int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.intake.end(calls, g.queue.end(lane))
	g.offerRoom()
}

// want returns the entries to lease. If no entries are wanted, ok is false, and at is the time to
// call want again, or zero if unknown. When more entries are wanted, the gate calls more once,
// without blocking.
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

// setInOrder selects whether entries are leased in the order of their positions.
func (g *gate) setInOrder(inOrder bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.intake.inOrder = inOrder
}

// offerRoom notifies the worker if more entries are wanted than the last call of want
// returned. The lock is held.
func (g *gate) offerRoom() {
	if g.intake.more == nil {
		return
	}
	more := g.intake.takesAny(g.isIdle()) || g.intake.hasNewLane()
	if g.breaker.state() == unreachable {
		more = g.isIdle() // so that the worker learns the time of the next probe
	}
	if more {
		g.intake.wantMore()
	}
}

// isIdle reports whether a slot is free, no calls wait, and no entry's calls are arriving. The
// lock is held.
func (g *gate) isIdle() bool {
	return g.intake.arriving == 0 && g.queue.waiting == 0 && g.probe == nil && g.calls < g.maxCalls
}

// worksFor returns how long the destination has worked. ok is false if it is down.
func (g *gate) worksFor() (d time.Duration, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Since(cmp.Or(g.recovery, g.began)), g.missed < downAfter
}

// recoveredAt returns when the destination recovered. It returns zero if the recovery has not lasted for
// settledAfter.
func (g *gate) recoveredAt() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.missed >= downAfter || time.Since(g.recovery) < settledAfter {
		return time.Time{}
	}
	return g.recovery
}

// state returns the state of the breaker, the number of consecutive failures, the time of the
// next probe of an unreachable destination, and the end of a pause.
func (g *gate) state() (is breakerState, failures int, probeAt, pausedUntil time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := &g.breaker
	if g.limiter.isPaused(time.Now()) {
		pausedUntil = g.limiter.pausedUntil
	}
	return b.state(), max(b.failed, b.missed), b.probeAt, pausedUntil
}
