package delivery

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
)

// A laneKey identifies a lane: the first attempts of one source, or the retries of all sources.
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
// comes from the lane with the fewest calls in flight; among equals, from the lane that was
// selected least recently. While other lanes wait, retries get a fifth of the calls. A slow or
// failing lane therefore uses only its own share. A failure may take seconds, so lanes with only
// failing calls leave a quarter of the calls in flight to the other lanes. The entries of a lane
// take turns. A fairQueue is not safe for concurrent use. It uses only the lane and the waiting
// tickets of a gateEntry.
type fairQueue struct {
	maxFailing int // maximum number of calls in flight from failing lanes
	waiting    int // number of entries with waiting calls
	lanes      map[laneKey]*lane
	turns      uint64 // number of turns taken and lanes created
}

// firstAttempts is the number of first attempts that begin for each retry that begins.
const firstAttempts = 4

type lane struct {
	retries  bool
	entries  int // number of active entries
	calls    int // number of calls in flight
	failed   int // consecutive failures
	lastTurn uint64
	waiting  []*gateEntry // entries with waiting calls; the first has the next turn
}

// newFairQueue returns a queue for maxCalls calls in flight.
func newFairQueue(maxCalls int) fairQueue {
	q := fairQueue{lanes: map[laneKey]*lane{}}
	q.setMaxCalls(maxCalls)
	return q
}

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
func (q *fairQueue) push(e *gateEntry) {
	l := q.lanes[e.lane]
	l.waiting = append(l.waiting, e)
	q.waiting++
}

// remove removes an entry without waiting calls.
func (q *fairQueue) remove(e *gateEntry) {
	l := q.lanes[e.lane]
	l.waiting = slices.DeleteFunc(l.waiting, func(other *gateEntry) bool { return other == e })
	q.waiting--
}

// next returns the entry that has the next turn, or nil.
func (q *fairQueue) next() *gateEntry {
	if q.waiting == 0 {
		return nil
	}
	failing := 0
	var first, healthy *lane // the next lane, and the next healthy lane
	for _, l := range q.lanes {
		if l.fails() {
			failing += l.calls
		}
		if len(l.waiting) == 0 {
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
	return first.waiting[0]
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

// fails reports whether the last downAfter calls of the lane failed.
func (l *lane) fails() bool { return l.failed >= downAfter }

// pop begins the first call of an entry that next has returned.
func (q *fairQueue) pop(e *gateEntry) *ticket {
	l := q.lanes[e.lane]
	q.turns++
	l.lastTurn = q.turns
	l.calls++
	t := e.waiting[0]
	e.waiting = e.waiting[1:]
	l.waiting = slices.Delete(l.waiting, 0, 1)
	if len(e.waiting) > 0 {
		l.waiting = append(l.waiting, e)
	} else {
		q.waiting--
	}
	return t
}

// done records the end of a call that pop began.
func (q *fairQueue) done(e *gateEntry, o outcome) {
	l := q.lanes[e.lane]
	l.calls--
	switch o {
	case outcomeUnknown:
	case outcomeWorking:
		l.failed = 0
	default:
		l.failed++
	}
}

// all yields the entries with waiting calls, in no particular order.
func (q *fairQueue) all(yield func(*gateEntry) bool) {
	for _, l := range q.lanes {
		for _, e := range l.waiting {
			if !yield(e) {
				return
			}
		}
	}
}

// others returns a Want that accepts entries only from lanes without entries.
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
		// run delivers the call. If it fails, cause is the error, without secrets and URLs.
		run() (o outcome, cause string)
	}
	entry  *gateEntry
	shared bool // another ticket represents the same request, or no request was sent; set by run
}

// A gateEntry is an entry at the gate.
type gateEntry struct {
	lane     laneKey
	ctx      context.Context // when it is done, waiting calls return
	deadline time.Time       // time at which waiting calls return
	waiting  []*ticket       // waiting calls, in order
	inFlight int
	wake     chan struct{} // contains a value if the entry must check again; never closed
	until    time.Time     // when the current wait times out
}

// signal makes the entry check again, either now or before its next wait.
func (e *gateEntry) signal() {
	select {
	case e.wake <- struct{}{}:
	default: // a signal is pending
	}
}
