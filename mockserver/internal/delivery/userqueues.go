package delivery

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

const (
	// stayLeased is how long an entry stays leased while each of its remaining calls waits for
	// a call that is not in flight or has failed before.
	stayLeased = 250 * time.Millisecond
	// lostAfter is how late a call must be before the worker checks whether the journal still
	// contains the call.
	lostAfter = 10 * time.Second
	// resumedAhead is the number of calls at the start of a queue whose entries are resumed. The
	// journal reads an entry while earlier calls are in flight.
	resumedAhead = 4
)

// userQueues contains the pending calls of a destination that were leased before, in a queue
// for each user. It decides which calls may be attempted, so that each user's calls are
// delivered one at a time, in the order in which they were accepted.
//
// # State
//
// The journal is the source of truth: it stores which calls are pending, and when they are
// scheduled. The queues are rebuilt when a worker begins to read from the journal: each call
// that waits for a retry is inserted by its position (journal.Reader.Waiting). Calls that were
// never leased need no queue. The journal leases them in the order of their positions
// (journal.Want.InOrder), so they are inserted at the end of their queues. Calls that a crashed
// process had leased are inserted by their positions.
//
// While a call waits for earlier calls, its entry stays in memory as long as another call of
// the entry is in flight or may soon be. Otherwise the entry ends, and the journal parks it
// until the queues resume it (journal.Reader.Resume): when a first call is scheduled, or when
// one of its calls is among the first resumedAhead calls of its queue and no call before it has
// failed. So the number of active entries is bounded, however long a queue is, and an entry is
// leased at most once more for each of its calls and for each failed attempt at one of the calls
// before it. A queued call takes 32 bytes, a user about 200.
//
// # Repetition after a crash
//
// The end of an entry is stored when all its calls have ended. After a crash, calls that ended
// before their entry did are delivered again. The predecessors of an entry are the entries with
// an earlier call of the same user, even if that call was postponed. The end of an entry is
// stored only after the ends of its predecessors. Therefore a call is repeated only together
// with all later calls of its queue, in order: call n is followed by call n+1, or by one of the
// calls 1 to n and all calls after it. An entry that only postpones a call again does not wait
// for its predecessors. If the end of an entry cannot be stored, the ordering stores no further
// ends, and the queues are loaded again as after a crash.
//
// Methods are safe for concurrent use.
type userQueues struct {
	journal  parkedEntries
	overtake bool      // failed calls leave their queue
	began    time.Time // origin of queuedCall.due; not affected by clock changes

	mu      sync.Mutex // guards the fields below and all queues
	byUser  map[event.Key]*userQueue
	merged  []event.Key            // IDs of merged users, oldest first; may contain removed IDs
	timers  map[uint64]*time.Timer // timers that resume entries, by position of the scheduled call
	sweeper *time.Timer
	stopped bool
}

// parkedEntries is the part of journal.Reader that controls parked entries.
type parkedEntries interface {
	Resume(position uint64)
	IsPending(position uint64) bool
}

// A queuedEntry is a leased entry with calls in queues.
type queuedEntry struct {
	settled  chan struct{} // closed when its end is stored in order, or will not be stored
	once     sync.Once     // closes settled
	first    bool          // leased for the first time: after a crash, the queues would not contain its calls
	released chan struct{} // closed to postpone the waiting calls of the entry

	// The fields below are guarded by userQueues.mu.

	predecessors []*queuedEntry            // entries whose ends must be stored first
	open         int                       // number of users with calls that have not ended or been postponed; set before any call waits
	blocked      map[uint64]*tracking.Call // waiting calls, by position, with a blocking call before them (see isBlocking)
	timer        *time.Timer               // releases the entry; set while calls of all open users are blocked
	isReleased   bool
}

// settle reports that the end of the entry is stored in order, or will not be stored. It may be
// called again.
func (e *queuedEntry) settle() { e.once.Do(func() { close(e.settled) }) }

func newUserQueues(journal parkedEntries, overtake bool) *userQueues {
	return &userQueues{journal: journal, overtake: overtake, began: time.Now(), byUser: map[event.Key]*userQueue{}, timers: map[uint64]*time.Timer{}}
}

// start resumes the entries of the first call of each queue. The caller must have added all
// waiting entries.
func (qs *userQueues) start() {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	for _, q := range qs.byUser {
		qs.resumeFirst(q)
	}
	qs.sweeper = time.AfterFunc(lostAfter, qs.sweep)
}

// stop stops resuming entries.
func (qs *userQueues) stop() {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	qs.stopped = true
	qs.sweeper.Stop()
	for _, t := range qs.timers {
		t.Stop()
	}
}

// retryNow makes the first call of each queue due immediately.
func (qs *userQueues) retryNow() {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	for _, q := range qs.byUser {
		first := q.first()
		if first == nil || first.due <= qs.now() {
			continue
		}
		if first.due = 0; first.resumed {
			qs.stopTimer(first.position)
			qs.journal.Resume(first.position)
		}
	}
}

// now returns the current time in nanoseconds since began.
func (qs *userQueues) now() int64 { return int64(time.Since(qs.began)) }

// in returns the due time of a call that is scheduled after a delay.
func (qs *userQueues) in(wait time.Duration) int64 {
	if wait <= 0 {
		return 0
	}
	return qs.now() + int64(wait)
}

// resume resumes the entry of the call at a position when the call is due. The lock is held.
func (qs *userQueues) resume(position uint64, due int64) {
	wait := time.Duration(due - qs.now())
	if wait <= 0 {
		qs.journal.Resume(position)
		return
	}
	qs.timers[position] = time.AfterFunc(wait, func() {
		qs.mu.Lock()
		defer qs.mu.Unlock()
		delete(qs.timers, position)
		qs.journal.Resume(position)
	})
}

// resumeFirst finds the first call in a queue that has not ended. If the call waits, resumeFirst
// resumes its entry. Unless the call has failed before, resumeFirst also resumes the entries of
// the next calls. The lock is held.
func (qs *userQueues) resumeFirst(q *userQueue) {
	at := q.firstAt()
	for i := at; i < min(at+resumedAhead, len(q.calls)); i++ {
		c := &q.calls[i]
		if i > at && c.due > qs.now() {
			return
		}
		if c.entry == nil && !c.resumed && !c.ended {
			c.resumed = true
			qs.resume(c.position, c.due)
		}
		if c.failing || c.waits {
			return
		}
	}
}

// sweep periodically removes first calls that the journal no longer contains.
func (qs *userQueues) sweep() {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if qs.stopped {
		return
	}
	now := qs.now()
	for _, q := range qs.byUser {
		for first := q.first(); first != nil && first.resumed && now-first.due > int64(lostAfter) && !qs.journal.IsPending(first.position); first = q.first() {
			at, _ := q.find(first.position)
			q.removeAt(at)
			qs.wake(q, 0)
		}
		qs.drop(q)
	}
	qs.sweeper.Reset(lostAfter)
}

// userOf returns the ID of a call's user. It is empty for a call without a user, which is not
// queued.
func userOf(c *tracking.Call) string { return cmp.Or(c.UserID, c.AnonymousID) }

func keyOfUser(id string) event.Key { return event.KeyOf("", id) }

// add inserts the calls of a waiting entry.
func (qs *userQueues) add(e *journal.Entry, due time.Time) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	now := time.Now()
	for i := range e.Calls {
		n := noteOf(e, i)
		failing := e.Attempt-n.skipped > 1
		at := qs.in(max(n.left(now), due.Sub(now)))
		var c *queuedCall
		if !qs.overtake || !failing {
			c, _ = qs.put(&e.Calls[i], e.Position(i))
		}
		if c == nil {
			qs.resume(e.Position(i), at)
			continue
		}
		c.due, c.failing = at, failing
	}
}

// begin inserts the calls of a leased entry and makes them active. It keeps the due times of calls
// that waited.
func (qs *userQueues) begin(e *journal.Entry) *queuedEntry {
	now, entry := time.Now(), &queuedEntry{settled: make(chan struct{}), released: make(chan struct{}), blocked: map[uint64]*tracking.Call{}, first: e.Attempt == 1}
	qs.mu.Lock()
	defer qs.mu.Unlock()
	for i := range e.Calls {
		n := noteOf(e, i)
		failing := e.Attempt-n.skipped > 1
		qs.stopTimer(e.Position(i))
		if qs.overtake && failing {
			qs.remove(&e.Calls[i], e.Position(i))
			continue
		}
		c, isNew := qs.put(&e.Calls[i], e.Position(i))
		if c == nil {
			continue
		}
		if isNew {
			c.due = qs.in(n.left(now))
		}
		*c = queuedCall{position: c.position, due: c.due, entry: entry, failing: failing}
	}
	return entry
}

// put returns the queued call at a position, and inserts it if necessary. It returns nil for
// a call without a user. The lock is held.
func (qs *userQueues) put(c *tracking.Call, position uint64) (call *queuedCall, isNew bool) {
	q := qs.queueOf(c)
	if q == nil {
		return nil, false
	}
	at, found := q.find(position)
	if !found {
		q.calls = slices.Insert(q.calls, at, queuedCall{position: position})
	}
	return &q.calls[at], !found
}

// queueOf returns the queue of a call, and creates it if necessary. An alias call merges the
// queues of its two IDs.
func (qs *userQueues) queueOf(c *tracking.Call) *userQueue {
	user := userOf(c)
	if user == "" {
		return nil
	}
	if pair, ok := linkedIDs(c); ok {
		return qs.merge(qs.queue(pair[0]), qs.queue(pair[1]))
	}
	return qs.queue(keyOfUser(user))
}

func (qs *userQueues) queue(user event.Key) *userQueue {
	q := qs.byUser[user]
	if q == nil {
		q = &userQueue{users: []event.Key{user}}
		qs.byUser[user] = q
	}
	return q
}

// wake makes waiting calls check again whether they may be attempted, after the call at position changed
// has changed. Checking thousands of calls is slow, so in two cases wake notifies only the first
// unfinished call: if the first call comes before the changed call; and if the first call comes after
// it, is active and has not failed. If the entry of the first call is parked, wake resumes it. The lock
// is held.
func (qs *userQueues) wake(q *userQueue, changed uint64) {
	if q.attempted == changed {
		q.attempted = 0
	}
	first := q.first()
	if first == nil {
		return
	}
	if first.position < changed {
		q.notify(first.position)
		return
	}
	qs.resumeFirst(q)
	if first.position == changed || first.isBlocking() {
		q.wakeAll()
	} else {
		q.notify(first.position)
	}
}

// at returns the queue of a call, or nil, and the index of the call in the queue. If the queue
// does not contain the call, at is the index at which to insert it. The lock is held.
func (qs *userQueues) at(c *tracking.Call, position uint64) (q *userQueue, at int, found bool) {
	user := userOf(c)
	if user == "" {
		return nil, 0, false
	}
	if q = qs.byUser[keyOfUser(user)]; q != nil {
		at, found = q.find(position)
	}
	return q, at, found
}

// remove removes a call from its queue. The lock is held.
func (qs *userQueues) remove(c *tracking.Call, position uint64) {
	q, at, found := qs.at(c, position)
	if found {
		q.removeAt(at)
		qs.wake(q, position)
	}
	if q != nil {
		qs.drop(q)
	}
}

// drop deletes an empty queue, unless it is merged. The lock is held.
func (qs *userQueues) drop(q *userQueue) {
	if len(q.calls) == 0 && len(q.users) == 1 {
		delete(qs.byUser, q.users[0])
	}
}

// awaitTurn waits until a call may be attempted. n is the note of the call. If ok is false, the
// call must wait in the journal: until due or, if due is zero, until earlier calls have ended
// or calls are admitted again.
func (qs *userQueues) awaitTurn(ctx context.Context, e *queuedEntry, c *tracking.Call, position uint64, n note) (due time.Time, ok bool) {
	for {
		due, wait := qs.check(e, c, position, n)
		if wait == nil {
			return due, due.IsZero()
		}
		select {
		case <-wait:
			continue
		case <-e.released:
		case <-ctx.Done():
		}
		if e.first || ctx.Err() != nil {
			qs.addPredecessors(e, c, position)
		}
		return time.Time{}, false
	}
}

// check reports whether a call may be attempted: then due is zero and wait is nil. Otherwise it
// returns either the call's due time, if that is in the future, or a channel that is closed when
// the caller must check again. n contains the due time of a call without a queue, because its
// entry is resumed as soon as any of its calls is due.
func (qs *userQueues) check(e *queuedEntry, c *tracking.Call, position uint64, n note) (due time.Time, wait chan struct{}) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	defer qs.updateTimer(e)
	delete(e.blocked, position)
	q, at, found := qs.at(c, position)
	var early time.Duration
	if found {
		early = time.Duration(q.calls[at].due - qs.now())
	} else {
		early = n.left(time.Now())
	}
	if early > earlyTolerance {
		return time.Now().Add(early), nil
	}
	if !found {
		return due, nil
	}
	for i := range q.calls[:at] {
		before := &q.calls[i]
		if before.ended {
			e.addPredecessor(before.entry)
			continue
		}
		if before.blocks(e) {
			e.blocked[position] = c
		}
		return due, q.wait(position)
	}
	if q.attempted != 0 && q.attempted != position {
		return due, q.wait(position)
	}
	q.attempted = position
	return due, nil
}

// updateTimer schedules the release of an entry when calls of all its open users are blocked,
// and cancels it otherwise. The lock is held.
func (qs *userQueues) updateTimer(e *queuedEntry) {
	switch allBlocked := e.open > 0 && len(e.blocked) == e.open; {
	case allBlocked && e.timer == nil:
		e.timer = time.AfterFunc(stayLeased, func() { qs.release(e) })
	case !allBlocked && e.timer != nil:
		e.timer.Stop()
		e.timer = nil
	}
}

// release postpones the calls of an entry if they are still blocked.
func (qs *userQueues) release(e *queuedEntry) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	for position, c := range e.blocked {
		if q, _, found := qs.at(c, position); !found || !q.first().blocks(e) {
			delete(e.blocked, position) // no longer blocked: wake notifies the call
		}
	}
	if len(e.blocked) < e.open {
		e.timer = nil
	} else if !e.isReleased {
		e.isReleased = true
		close(e.released)
	}
}

// endUser records that all calls of one user of an entry have ended or been postponed.
func (qs *userQueues) endUser(e *queuedEntry) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	e.open--
	qs.updateTimer(e)
}

// addPredecessors adds the entries of all earlier active calls in the queue of a call.
func (qs *userQueues) addPredecessors(e *queuedEntry, c *tracking.Call, position uint64) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q, at, _ := qs.at(c, position)
	if q == nil {
		return
	}
	for i := range q.calls[:at] {
		if before := q.calls[i].entry; before != nil {
			e.addPredecessor(before)
		}
	}
}

// addPredecessor ensures that the end of e is stored after the end of other. The lock is held.
func (e *queuedEntry) addPredecessor(other *queuedEntry) {
	if other != e && (len(e.predecessors) == 0 || e.predecessors[len(e.predecessors)-1] != other) {
		e.predecessors = append(e.predecessors, other)
	}
}

// earlyTolerance is how long before its due time a call may be attempted, because clocks are
// not precise.
const earlyTolerance = 50 * time.Millisecond

// end records the end of a call. The next call of its queue may be attempted.
func (qs *userQueues) end(c *tracking.Call, position uint64) {
	qs.change(c, position, func(call *queuedCall) { call.ended = true })
}

// postpone schedules a call, and therefore the calls behind it, at due. The zero time means
// now.
func (qs *userQueues) postpone(c *tracking.Call, position uint64, due time.Time) {
	qs.change(c, position, func(call *queuedCall) { call.waits, call.due = true, qs.in(time.Until(due)) })
}

func (qs *userQueues) change(c *tracking.Call, position uint64, change func(*queuedCall)) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if q, at, found := qs.at(c, position); found {
		change(&q.calls[at])
		qs.wake(q, position)
	}
}

// dequeue removes a call from its queue, so that later calls can overtake it.
func (qs *userQueues) dequeue(c *tracking.Call, position uint64) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	qs.remove(c, position)
}

// waitForPredecessors waits until the predecessors of e are settled.
func (qs *userQueues) waitForPredecessors(e *queuedEntry) {
	qs.mu.Lock()
	before := e.predecessors
	qs.mu.Unlock()
	for _, b := range before {
		<-b.settled
	}
}

// finish ends an entry whose end is stored. Ended calls leave their queues, and all other calls wait.
// finish resumes the entry if one of these is first in its queue or has no user.
func (qs *userQueues) finish(e *queuedEntry, of *journal.Entry, outcomes []tracking.Outcome) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	e.predecessors = nil // otherwise the next entry, which refers to e, would keep all earlier entries in memory
	for i := range of.Calls {
		position := of.Position(i)
		q, at, found := qs.at(&of.Calls[i], position)
		switch {
		case !found:
			if outcomes[i].State == tracking.StatePending {
				qs.resume(position, qs.in(parseNote(outcomes[i].Note).left(time.Now())))
			}
			continue
		case q.calls[at].entry != e:
			continue
		case q.calls[at].ended:
			qs.remove(&of.Calls[i], position)
			continue
		}
		call := &q.calls[at]
		if !call.waits {
			call.due = 0
		}
		call.entry, call.waits = nil, false
		qs.wake(q, position)
	}
}

// stopTimer cancels the timer that would resume a call's entry. The lock is held.
func (qs *userQueues) stopTimer(position uint64) {
	if t := qs.timers[position]; t != nil {
		t.Stop()
		delete(qs.timers, position)
	}
}
