package delivery

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
)

// A laneKey names a lane: a source, for calls that are tried for the first time, or
// all retries.
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

// A fairQueue shares the calls that may be under way among the sources and the
// retries: the next call is of the lane that has the fewest under way, and of those
// the one whose last call began the longest ago. Retries have a fifth where others
// wait. So what is slow, or fails, takes its own share and no other's. Lanes whose
// calls all fail leave a quarter to the others: a call may take seconds to fail.
// Within a lane the entries take turns. It must not be used concurrently, and uses of
// a line its lane and its waiting tickets alone.
type fairQueue struct {
	maxFailing int // calls that may be under way of lanes whose calls all fail
	lines      int // that have calls which wait
	lanes      map[laneKey]*lane
	turns      uint64 // that were taken, and lanes that began
}

// firstAttempts is how many calls that are tried for the first time begin for each
// retry.
const firstAttempts = 4

type lane struct {
	retries  bool
	entries  int // that are worked at
	calls    int // that are under way
	failed   int // in a row
	lastTurn uint64
	lines    []*gateLine // that have calls which wait; the call that begins next is of the first
}

// newFairQueue returns a queue for as many calls at once.
func newFairQueue(maxCalls int) fairQueue {
	q := fairQueue{lanes: map[laneKey]*lane{}}
	q.setMaxCalls(maxCalls)
	return q
}

// setMaxCalls sets how many calls there may be at once.
func (q *fairQueue) setMaxCalls(n int) { q.maxFailing = max(1, n*3/4) }

// begin counts an entry that is worked at. A lane exists while it has one.
func (q *fairQueue) begin(key laneKey) {
	if q.lanes[key] == nil {
		q.turns++
		q.lanes[key] = &lane{retries: key.retries, lastTurn: q.turns}
	}
	q.lanes[key].entries++
}

// end counts an entry less, and reports whether it was the last of its lane.
func (q *fairQueue) end(key laneKey) (last bool) {
	l := q.lanes[key]
	if l.entries--; l.entries == 0 {
		delete(q.lanes, key)
	}
	return l.entries == 0
}

// push adds a line, which has calls that wait.
func (q *fairQueue) push(ln *gateLine) {
	l := q.lanes[ln.lane]
	l.lines = append(l.lines, ln)
	q.lines++
}

// remove takes out a line whose calls no longer wait.
func (q *fairQueue) remove(ln *gateLine) {
	l := q.lanes[ln.lane]
	l.lines = slices.DeleteFunc(l.lines, func(other *gateLine) bool { return other == ln })
	q.lines--
}

// next returns the line whose first call begins next, or nil if none may.
func (q *fairQueue) next() *gateLine {
	if q.lines == 0 {
		return nil
	}
	failing := 0
	var first, healthy *lane // of all, and of those that do not fail
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

// before reports whether it is the turn of a before that of b.
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

// fails reports whether all of a lane's calls fail.
func (l *lane) fails() bool { return l.failed >= downAfter }

// pop begins the first call of a line that next returned.
func (q *fairQueue) pop(ln *gateLine) *ticket {
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
func (q *fairQueue) done(ln *gateLine, o outcome) {
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

// all yields the lines that have calls which wait, in no order.
func (q *fairQueue) all(yield func(*gateLine) bool) {
	for _, l := range q.lanes {
		for _, ln := range l.lines {
			if !yield(ln) {
				return
			}
		}
	}
}

// others returns a Want of entries of the lanes that have none.
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

// A ticket stands for a call at the gate.
//
//	waits ── admitted ──▶ under way ──▶ ended
//	  └── canceled, expired, or the destination cannot be reached ──▶ left
type ticket struct {
	call interface {
		// run delivers the call, and returns what it failed with, which must hold no
		// secret: a URL may.
		run() (o outcome, cause string)
	}
	line *gateLine
}

// A gateLine is the calls of one entry at the gate.
type gateLine struct {
	lane     laneKey
	ctx      context.Context // those that wait give up when it ends
	deadline time.Time       // or then
	waiting  []*ticket       // in their order
	underWay int
	wake     chan struct{} // holds a token when there is something to look at; never closed
	until    time.Time     // when it looks by itself, since it began to wait last
}

// signal makes a line look again, now or when it waits next.
func (l *gateLine) signal() {
	select {
	case l.wake <- struct{}{}:
	default: // it will look anyway
	}
}
