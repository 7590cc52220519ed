package delivery

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
)

// A laneKey identifies a lane: a source with first attempts, or all retries.
type laneKey struct {
	source  string
	retries bool
}

// laneOf returns the lane of an entry.
func laneOf(e *journal.Entry) laneKey {
	if e.Attempt > 1 || len(e.Calls) == 0 {
		return laneKey{retries: true}
	}
	return laneKey{source: e.Calls[0].Source}
}

// A fairQueue shares the calls in flight between the sources and the retries. The next call
// comes from the lane with the fewest calls in flight; among equals, from the lane whose last
// call began first. Retries get a fifth of the calls while others wait. A slow or failing lane
// therefore uses only its own share. Lanes whose calls all fail leave a quarter to the others,
// because a failure may take seconds. The entries of a lane take turns. A fairQueue is not
// safe for concurrent use. It uses only the lane and the waiting tickets of a gateEntry.
type fairQueue struct {
	maxFailing int // maximum number of calls in flight of failing lanes
	lines      int // with waiting calls
	lanes      map[laneKey]*lane
	turns      uint64 // number of turns taken and lanes created
}

// firstAttempts is the number of first attempts that begin for each retry.
const firstAttempts = 4

type lane struct {
	retries  bool
	entries  int // active
	calls    int // in flight
	failed   int // consecutive failures
	lastTurn uint64
	lines    []*gateEntry // with waiting calls; the first has the next turn
}

// newFairQueue returns a queue for maxCalls calls in flight.
func newFairQueue(maxCalls int) fairQueue {
	q := fairQueue{lanes: map[laneKey]*lane{}}
	q.setMaxCalls(maxCalls)
	return q
}

// setMaxCalls sets the maximum number of calls in flight.
func (q *fairQueue) setMaxCalls(n int) { q.maxFailing = max(1, n*3/4) }

// begin adds an entry to a lane. A lane exists while it has entries.
func (q *fairQueue) begin(key laneKey) {
	if q.lanes[key] == nil {
		q.turns++
		q.lanes[key] = &lane{retries: key.retries, lastTurn: q.turns}
	}
	q.lanes[key].entries++
}

// end removes an entry, and reports whether it was the last of its lane.
func (q *fairQueue) end(key laneKey) (last bool) {
	l := q.lanes[key]
	if l.entries--; l.entries == 0 {
		delete(q.lanes, key)
	}
	return l.entries == 0
}

// push adds an entry with waiting calls.
func (q *fairQueue) push(ln *gateEntry) {
	l := q.lanes[ln.lane]
	l.lines = append(l.lines, ln)
	q.lines++
}

// remove removes an entry without waiting calls.
func (q *fairQueue) remove(ln *gateEntry) {
	l := q.lanes[ln.lane]
	l.lines = slices.DeleteFunc(l.lines, func(other *gateEntry) bool { return other == ln })
	q.lines--
}

// next returns the entry with the next turn, or nil.
func (q *fairQueue) next() *gateEntry {
	if q.lines == 0 {
		return nil
	}
	failing := 0
	var first, healthy *lane // of all lanes, and of healthy lanes
	for _, l := range q.lanes {
		if l.fails() {
			failing += l.calls
		}
		if len(l.lines) == 0 {
			continue
		}
		if first == nil || q.before(l, first) {
			first = l
		}
		if !l.fails() && (healthy == nil || q.before(l, healthy)) {
			healthy = l
		}
	}
	if failing >= q.maxFailing {
		first = healthy
	}
	if first == nil {
		return nil
	}
	return first.lines[0]
}

// before reports whether lane a has its turn before lane b.
func (q *fairQueue) before(a, b *lane) bool {
	aCalls, aTurn := q.order(a)
	bCalls, bTurn := q.order(b)
	return aCalls < bCalls || aCalls == bCalls && aTurn < bTurn
}

func (q *fairQueue) order(l *lane) (calls int, turn uint64) {
	switch {
	case !l.retries:
		return l.calls, l.lastTurn
	case q.turns-l.lastTurn < firstAttempts:
		return l.calls * firstAttempts, math.MaxUint64
	}
	return l.calls * firstAttempts, 0
}

// fails reports whether all recent calls of the lane failed.
func (l *lane) fails() bool { return l.failed >= downAfter }

// pop begins the first call of an entry that next returned.
func (q *fairQueue) pop(ln *gateEntry) *ticket {
	l := q.lanes[ln.lane]
	q.turns++
	l.lastTurn = q.turns
	l.calls++
	t := ln.waiting[0]
	ln.waiting = ln.waiting[1:]
	l.lines = slices.Delete(l.lines, 0, 1)
	if len(ln.waiting) > 0 {
		l.lines = append(l.lines, ln)
	} else {
		q.lines--
	}
	return t
}

// done ends a call that pop began.
func (q *fairQueue) done(ln *gateEntry, o outcome) {
	l := q.lanes[ln.lane]
	l.calls--
	switch o {
	case outcomeUnknown:
	case outcomeAnswered:
		l.failed = 0
	default:
		l.failed++
	}
}

// all yields the entries with waiting calls in any order.
func (q *fairQueue) all(yield func(*gateEntry) bool) {
	for _, l := range q.lanes {
		for _, ln := range l.lines {
			if !yield(ln) {
				return
			}
		}
	}
}

// others returns a Want for the lanes without entries.
func (q *fairQueue) others() (w journal.Want) {
	for key := range q.lanes {
		if key.retries {
			w.NoRetries = true
		} else {
			w.Except = append(w.Except, key.source)
		}
	}
	return w
}

// A ticket is a call at the gate.
//
//	waiting ── admitted ──▶ in flight ──▶ ended
//	  └── canceled, expired, or the destination is unreachable ──▶ returned
type ticket struct {
	call interface {
		// run delivers the call. cause is the error of a failure. It must not contain secrets,
		// so it does not contain URLs.
		run() (o outcome, cause string)
	}
	line *gateEntry
}

// A gateEntry is an entry at the gate.
type gateEntry struct {
	lane     laneKey
	ctx      context.Context // waiting calls return when it ends
	deadline time.Time       // waiting calls return at this time
	waiting  []*ticket       // in order
	inFlight int
	wake     chan struct{} // has a token if there is something to check; never closed
	until    time.Time     // when the current wait ends without a signal
}

// signal makes the entry check again, now or when it next waits.
func (l *gateEntry) signal() {
	select {
	case l.wake <- struct{}{}:
	default: // a signal is pending
	}
}
