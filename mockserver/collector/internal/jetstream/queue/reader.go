package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// readAhead is the number of due retries whose calls are read before a reader wants them.
const readAhead = 8

// newReader returns a new reader and closes the previous one. If the queue is closed, the reader is too.
func (q *Queue) newReader() *reader {
	r := &reader{queue: q, wake: make(chan struct{})}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closeReader()
	if q.ctx.Err() == nil {
		q.reader = r
	}
	return r
}

// closeReader closes the open reader. The caller holds the lock.
func (q *Queue) closeReader() {
	if q.reader != nil {
		close(q.reader.wake)
		q.reader = nil
	}
}

// Since returns the time when the destination was attached.
func (r *reader) Since() time.Time { return r.queue.since }

// Next implements journal.Reader.
func (r *reader) Next(ctx context.Context, want journal.Want) (journal.Lease, error) {
	for {
		it, wake, due, err := r.take(ctx, &want)
		if err != nil {
			return nil, err
		}
		if it != nil {
			l, err := r.queue.lease(it)
			if l != nil {
				return l, nil
			}
			if err != nil && r.queue.putBack(it) {
				_ = pause.For(ctx, bodyPause) // take checks ctx
			}
			continue
		}
		if want.InOrder {
			reached, err := r.queue.reachReplay(ctx)
			if reached {
				continue
			}
			if again := time.Now().Add(bodyPause); err != nil && (due.IsZero() || again.Before(due)) {
				due = again
			}
		}
		r.queue.pull()
		r.wait(ctx, &want, wake, due)
	}
}

// take returns an item and marks it as leased. If no item is ready, take registers want. The
// caller then waits until wake is closed, or until due unless due is the zero time.
func (r *reader) take(ctx context.Context, want *journal.Want) (it *item, wake <-chan struct{}, due time.Time, err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, due, err
	}
	q := r.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.reader != r {
		return nil, nil, due, journal.ErrClosed
	}
	ok := false
	if want.InOrder && !q.inOrder {
		q.placeReplays()
	}
	if q.inOrder = want.InOrder; !want.InOrder && !q.unparked {
		q.unpark()
	}
	q.unparked = !want.InOrder
	if _, err := q.set.Status.Writable(); err != nil {
		// The outcomes could not be stored, so the calls would be delivered repeatedly.
	} else if want.InOrder && q.set.Shared && (q.ownership == nil || q.ownership.ctx.Err() != nil) {
		// Another process may own the destination.
	} else if want.InOrder {
		it, due, ok = q.ready.PopInOrder(time.Now(), q.limit())
	} else {
		it, due, ok = q.ready.Pop(time.Now(), want.Except, want.NoRetries)
	}
	if !ok {
		q.wants[want] = struct{}{}
		return nil, r.wake, due, nil
	}
	it.leased = true
	q.readAhead()
	return it, nil, due, nil
}

// readAhead begins to read the calls of the next due retries, so that a backlog of retries does not
// wait for one request to the server after another. The caller holds the lock.
func (q *Queue) readAhead() {
	for it := range q.ready.Next(time.Now(), readAhead) {
		if it.calls == nil && it.message == nil {
			read := make(chan readCalls, 1)
			it.calls = read
			q.set.Work.Go(func() {
				s, err := q.bodies(it)
				read <- readCalls{s, err}
			})
		}
	}
}

// calls returns the calls of a leased item.
func (q *Queue) calls(it *item) (storedCalls, error) {
	q.mu.Lock()
	read := it.calls
	it.calls = nil
	q.mu.Unlock()
	if read == nil {
		return q.bodies(it)
	}
	r := <-read
	return r.storedCalls, r.err
}

// wait waits for an item. If sources are excluded, wait returns after overtakeEvery at the latest,
// because messages of other sources may follow.
func (r *reader) wait(ctx context.Context, want *journal.Want, wake <-chan struct{}, due time.Time) {
	if look := time.Now().Add(overtakeEvery); len(want.Except) > 0 && (due.IsZero() || look.Before(due)) {
		due = look
	}
	pause.Until(ctx, due, wake)
	r.queue.mu.Lock()
	defer r.queue.mu.Unlock()
	delete(r.queue.wants, want)
}

// lease reads the calls of an item. It returns an error if they cannot be read now, and nil if the
// attempt has already ended.
func (q *Queue) lease(it *item) (*lease, error) {
	if q.hasEnded(it) {
		if err := q.settleEnded(it); err != nil {
			q.set.Log.Warn("settling an outcome failed; retrying", "destination", q.name, "error", err)
		}
		return nil, nil
	}
	l := &lease{queue: q, item: it, results: q.set.results}
	if o := q.currentOwnership(); o != nil {
		l.results = o.results
	}
	s, err := q.calls(it)
	switch {
	case err != nil && store.IsMissing(err) && !q.mayAppear(it):
		q.set.Log.Error("stored calls are missing or corrupt; they failed permanently", "destination", q.name, "message", it.Ref.Seq, "error", err)
		q.failUnreadable(it)
		return nil, nil
	case err != nil:
		q.set.Log.Warn("reading stored calls failed; retrying", "destination", q.name, "message", it.Ref.Seq, "error", err)
		return nil, err
	}
	l.entry = q.entry(it, s)
	return l, nil
}

// entry returns the entry of an item.
func (q *Queue) entry(it *item, s storedCalls) journal.Entry {
	e := journal.Entry{
		ID:      fmt.Sprintf("%s/%d.%d/%d", q.name, it.Ref.Seq, it.Ref.Part, it.Attempt),
		Attempt: it.Attempt, Since: s.at, Calls: make([]tracking.Call, len(s.bodies)), Notes: it.Notes, Traces: s.traces,
	}
	e.First, e.Places = positions(it.Ref, it.Places)
	for i, body := range s.bodies {
		var err error
		if e.Calls[i], err = event.ReadCall(s.source, body); err != nil {
			q.set.Log.Error("a stored call cannot be read", "destination", q.name, "message", it.Ref.Seq, "error", err)
			e.Calls[i] = tracking.Call{Source: s.source, Body: body, ReceivedAt: s.at}
		}
	}
	return e
}

// hasEnded reports whether the attempt has ended according to the ledger. Calls that wait in this
// process may have expired.
func (q *Queue) hasEnded(it *item) (tried bool) {
	q.set.ledger.With(q.name, func(a *ledger.Account) {
		tried = a.Attached == q.attached && a.Tried(it.Ref, it.Attempt)
	})
	return tried
}

// mayAppear reports whether missing calls may still be found: a server that has just become
// the leader of a cluster may lack recent messages.
func (q *Queue) mayAppear(it *item) bool {
	const tries = 30 // at intervals of bodyPause
	it.misses++
	return q.set.Shared && it.misses < tries
}
