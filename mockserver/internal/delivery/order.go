package delivery

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/sender"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// order switches to the current ordering settings and reader. Before a change, it waits
// until all entries have ended. Before ordered delivery begins, it waits until trailing requests have ended
// and no other process delivers. It then loads the waiting calls from the journal.
func (w *Worker) order(ctx context.Context, reader journal.Reader) error {
	to := w.Destination().Ordering
	if w.ordering == nil && !to.IsOrdered() || w.ordering != nil && w.ordering.isCurrent(to, reader) {
		return nil
	}
	w.endOrder()
	if !to.IsOrdered() {
		return nil
	}
	w.requests.concurrent.Wait() // for trailing requests
	owned, release, err := reader.Acquire(ctx)
	if err != nil {
		return err
	}
	o := &ordering{Ordering: to, reader: reader, owned: owned, release: release, admitting: newScope(w.admission())}
	o.requests = &requests{parent: newScope(w.requests.parent), owned: owned}
	context.AfterFunc(owned, o.admitting.end)
	context.AfterFunc(owned, o.requests.parent.end)
	if o.queues, err = w.loadQueues(ctx, reader, to); err != nil {
		o.end()
		return err
	}
	w.gate.setInOrder(true)
	w.ordering = o
	w.queues.Store(o.queues)
	return nil
}

// endOrder waits until all entries have ended, and ends the ordering, if any. It waits only for
// the calls in flight, because no other calls begin.
func (w *Worker) endOrder() {
	if w.ordering != nil {
		w.ordering.admitting.end()
	}
	w.entries.Wait()
	if w.ordering != nil {
		w.queues.Store(nil)
		w.ordering.end()
		w.ordering = nil
	}
	w.gate.setInOrder(false)
}

// loadQueues loads the waiting calls from the journal.
func (w *Worker) loadQueues(ctx context.Context, reader journal.Reader, to tracking.Ordering) (*userQueues, error) {
	qs := newUserQueues(reader, to.OnFailure == tracking.OnFailureOvertake)
	pairs, err := w.Aliases.Load(ctx)
	if err != nil {
		return nil, fmt.Errorf("could not load linked user IDs: %w", err)
	}
	for _, pair := range pairs {
		qs.merge(qs.queue(pair[0]), qs.queue(pair[1]))
	}
	if err := reader.Waiting(ctx, func(e journal.Entry, due time.Time) bool {
		qs.add(&e, due)
		return ctx.Err() == nil
	}); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	qs.start()
	return qs, nil
}

// An orderedEntry is a leased entry whose calls are delivered in order.
type orderedEntry struct {
	*Worker
	*queuedEntry
	ordering *ordering
	lease    journal.Lease
	entry    journal.Entry
	jobs     []job
	deadline time.Time
}

// deliverInOrder delivers the calls of an entry in order.
func (w *Worker) deliverInOrder(lease journal.Lease, e *queuedEntry, o *ordering) {
	oe := &orderedEntry{Worker: w, queuedEntry: e, ordering: o, lease: lease, entry: lease.Entry()}
	lane := laneOf(&oe.entry)
	defer w.gate.endEntry(lane, len(oe.entry.Calls))
	oe.jobs, oe.deadline = w.jobsOf(&oe.entry, o.requests), windowEnd(&oe.entry).Add(lastAttemptGrace)
	var users sync.WaitGroup
	all := oe.byUser()
	oe.open = len(all)
	for _, calls := range all {
		users.Go(func() {
			for _, i := range calls {
				oe.deliverOne(lane, i)
			}
			o.queues.endUser(e)
		})
	}
	w.gate.arrive()
	users.Wait()
	oe.end()
}

// byUser returns the indices of the entry's calls for each user, in order.
func (oe *orderedEntry) byUser() (users [][]int) {
	place := make(map[event.Key]int, len(oe.jobs))
	for i := range oe.jobs {
		user := userOf(oe.jobs[i].call)
		key := keyOfUser(user)
		at, found := place[key]
		if !found || user == "" {
			at, users = len(users), append(users, nil)
			place[key] = at
		}
		users[at] = append(users[at], i)
	}
	return users
}

// deliverOne delivers one call or schedules its retry.
func (oe *orderedEntry) deliverOne(lane laneKey, i int) {
	j, position := &oe.jobs[i], oe.entry.Position(i)
	due, ok := time.Time{}, true
	send := oe.ordering.admitting.Err() != nil || j.prepare()
	if send {
		due, ok = oe.ordering.queues.awaitTurn(oe.ordering.admitting, oe.queuedEntry, j.call, position, j.note)
	}
	if ok && !oe.saveLink(j.call) {
		j.delivery, due, ok = delivery{}, time.Now().Add(journalRetry), false
	}
	switch {
	case ok && send && oe.gate.runOne(oe.ordering.admitting, lane, &j.ticket, oe.deadline):
		j.delivery = expired("it could not be attempted in that time")
	case !ok && !due.IsZero():
		oe.postpone(j, due)
	}
	if j.delivery.decided && j.delivery.State == tracking.StatePending {
		oe.retryOrGiveUp(j)
	}
	switch d := &j.delivery; {
	case d.decided && d.State != tracking.StatePending:
		oe.ordering.queues.end(j.call, position)
	case d.decided && j.destination.OnFailure == tracking.OnFailureOvertake:
		oe.ordering.queues.dequeue(j.call, position)
	default:
		oe.ordering.queues.postpone(j.call, position, d.due)
	}
}

// saveLink stores the pair of IDs that an alias call links, and reports whether it succeeded.
func (oe *orderedEntry) saveLink(c *tracking.Call) bool {
	pair, ok := linkedIDs(c)
	if !ok {
		return true
	}
	ctx, stop := oe.untilDrained()
	defer stop()
	err := oe.Aliases.Save(ctx, pair)
	if err != nil {
		oe.Log.Error("could not store linked user IDs; the call waits", "destination", oe.name, "call", c.ID, "error", err)
	}
	return err == nil
}

// postpone schedules a call at due, or at the end of its retry window if that is earlier.
func (oe *orderedEntry) postpone(j *job, due time.Time) {
	now := time.Now()
	last := windowEnd(&oe.entry)
	if !now.Before(last) {
		last = oe.deadline
	}
	if !now.Before(last) {
		j.delivery = expired("earlier calls of its user did not end in that time")
		return
	}
	if due.After(last) {
		due = last
	}
	j.delivery.due = due
}

// retryOrGiveUp schedules the next attempt at a failed call, or fails the call permanently. After
// a connection failure, the delay is at most one second: the breaker limits the attempts at an
// unreachable destination, and only the first call of each user can probe it. When the
// destination recovers, the delays start at one second again, because the attempts during the
// outage did not fail because of the call.
func (oe *orderedEntry) retryOrGiveUp(j *job) {
	now, d := time.Now(), &j.delivery
	end, limit := windowEnd(&oe.entry), j.destination.GiveUpAfter
	giveUp := j.note.failedSince(now).Add(limit)
	givesUp := limit > 0 && giveUp.Before(end)
	if givesUp {
		end = giveUp
	}
	attempt := j.attempt
	if worked, ok := oe.gate.worksFor(); d.missed {
		attempt = 1
	} else if ok {
		attempt = min(attempt, sender.AttemptsIn(worked))
	}
	next, inTime := sender.Next(now, end, attempt, d.notBefore.Sub(now), oe.Jitter())
	switch {
	case inTime:
		d.due = next
	case givesUp:
		*d = failed(fmt.Sprintf("it has blocked later calls of its user for %v; %s", limit, d.Reason))
	default:
		*d = expired(d.Reason)
	}
}

// end stores the result of the entry, after its predecessors have ended. Once a result is not stored,
// the ordering stores no other results: its queues no longer match the journal. The next ordering
// loads the waiting calls again, like a new process after a crash.
func (oe *orderedEntry) end() {
	o := oe.ordering
	o.queues.waitForPredecessors(oe.queuedEntry)
	defer oe.settle()
	if o.failed.Load() {
		oe.lease.Return()
		return
	}
	r := resultInOrder(oe.jobs)
	r.OnPlaced = oe.settle
	if !oe.finish(oe.lease, oe.jobs, r) {
		o.admitting.end() // first, so that no returned entry is leased again in this ordering
		o.failed.Store(true)
		oe.settle()
		_ = pause.For(oe.leasing, journalRetry) // the next ordering waits for this entry
		return
	}
	o.queues.finish(oe.queuedEntry, &oe.entry, r.Outcomes)
}
