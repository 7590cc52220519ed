package delivery

import (
	"slices"
	"sort"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
)

// A userQueue contains the calls of one user. userQueues.mu guards it.
//
// # States of a call in its queue
//
//	          | leased | delivered | fails, or | entry's end
//	          |        | or failed | must wait | is stored
//	----------+--------+-----------+-----------+-------------
//	(none)    | active |           |           |
//	waiting   | active |           |           | waiting
//	active    |        | ended     | waiting   |
//	ended     |        |           |           | (none)
//
// A call may be attempted when all earlier calls of its queue have ended. It waits for active
// calls, and is postponed behind a waiting call. If failing calls may be overtaken, a failing
// call leaves its queue permanently.
type userQueue struct {
	users []event.Key  // the user's IDs; several after alias calls
	calls []queuedCall // sorted by position
	// attempted is the position of the call that may be attempted now, or 0. It is usually the first
	// call. A call before it can be inserted later, after a failed read or a crash.
	attempted uint64
	waiting   map[uint64]chan struct{} // channels of calls that wait for earlier calls, by position; closed to make the call check again
}

// A queuedCall is a call in a userQueue.
type queuedCall struct {
	position uint64
	due      int64        // earliest time of the attempt in nanoseconds since userQueues.began; 0 is now
	entry    *queuedEntry // the active entry of the call; nil while the call waits
	ended    bool
	waits    bool // the active entry has postponed the call
	failing  bool // the call has failed before
	resumed  bool // the call's entry has been or will be resumed
}

// firstAt returns the index of the first call that has not ended, or the number of calls.
func (q *userQueue) firstAt() int {
	for i := range q.calls {
		if !q.calls[i].ended {
			return i
		}
	}
	return len(q.calls)
}

// first returns the first call that has not ended, or nil.
func (q *userQueue) first() *queuedCall {
	at := q.firstAt()
	if at == len(q.calls) {
		return nil
	}
	return &q.calls[at]
}

// find returns the index of the call at a position. If there is no such call, at is the index
// at which to insert it.
func (q *userQueue) find(position uint64) (at int, found bool) {
	n := len(q.calls)
	if n == 0 || q.calls[n-1].position < position {
		return n, false
	}
	at = sort.Search(n, func(i int) bool { return q.calls[i].position >= position })
	return at, q.calls[at].position == position
}

func (q *userQueue) removeAt(at int) {
	delete(q.waiting, q.calls[at].position)
	if q.attempted == q.calls[at].position {
		q.attempted = 0
	}
	if at == 0 {
		q.calls[0] = queuedCall{}
		q.calls = q.calls[1:] // avoids moving the calls of a long queue
		return
	}
	q.calls = slices.Delete(q.calls, at, at+1)
}

// wait returns a channel that is closed when the call at a position must check again.
func (q *userQueue) wait(position uint64) chan struct{} {
	wait := q.waiting[position]
	if wait == nil {
		wait = make(chan struct{})
	}
	if q.waiting == nil {
		q.waiting = map[uint64]chan struct{}{}
	}
	q.waiting[position] = wait
	return wait
}

// notify makes a waiting call check again.
func (q *userQueue) notify(position uint64) {
	if w := q.waiting[position]; w != nil {
		close(w)
		delete(q.waiting, position)
	}
}

func (q *userQueue) wakeAll() {
	for _, w := range q.waiting {
		close(w)
	}
	q.waiting = nil
}

// isBlocking reports whether later calls may have to wait long, because this call is not active
// or has failed before.
func (c *queuedCall) isBlocking() bool { return c.entry == nil || c.waits || c.failing }

// blocks reports whether calls of entry e behind this call may have to wait long.
func (c *queuedCall) blocks(e *queuedEntry) bool { return c.isBlocking() && (c.entry != e || c.waits) }
