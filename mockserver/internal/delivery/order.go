package delivery

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/sender"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// order brings the ordering to the settings and the reader as they are. Where that changes
// it, it waits until the entries have ended that are worked at. Where calls are to be
// ordered from now on, it waits until no other process delivers, and puts all that waits
// in the journal into lines.
func (w *Worker) order(ctx context.Context, reader journal.Reader) error {
	to := w.Destination().Ordering
	if w.ordering == nil && !to.IsOrdered() || w.ordering != nil && w.ordering.stands(to, reader) {
		return nil
	}
	w.endOrder()
	if !to.IsOrdered() {
		return nil
	}
	held, release, err := reader.Hold(ctx)
	if err != nil {
		return err
	}
	o := &ordering{Ordering: to, reader: reader, held: held, release: release, admitting: newScope(w.admission())}
	o.requests = &requests{parent: newScope(w.requests.parent), held: held}
	context.AfterFunc(held, o.admitting.end)
	context.AfterFunc(held, o.requests.parent.end)
	if o.lines, err = w.linesOf(ctx, reader, to); err != nil {
		o.end()
		return err
	}
	w.gate.setInOrder(true)
	w.ordering = o
	w.lines.Store(o.lines)
	return nil
}

// endOrder ends the ordering, if there is one, once the entries have ended that are worked
// at. That takes as long as the calls under way: those behind them in their lines do not
// begin any more.
func (w *Worker) endOrder() {
	if w.ordering != nil {
		w.ordering.admitting.end()
	}
	w.entries.Wait()
	if w.ordering != nil {
		w.lines.Store(nil)
		w.ordering.end()
		w.ordering = nil
	}
	w.gate.setInOrder(false)
}

// linesOf puts all that waits in the journal into lines.
func (w *Worker) linesOf(ctx context.Context, reader journal.Reader, to tracking.Ordering) (*lines, error) {
	ls := newLines(reader, to.OnFailure == tracking.OnFailureOvertake)
	pairs, err := w.Joined.Load(ctx)
	if err != nil {
		return nil, fmt.Errorf("which ids are of one user cannot be read: %w", err)
	}
	for _, pair := range pairs {
		ls.join(ls.line(pair[0]), ls.line(pair[1]))
	}
	if err := reader.Waiting(ctx, func(e journal.Entry, due time.Time) bool {
		ls.add(&e, due)
		return ctx.Err() == nil
	}); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ls.start()
	return ls, nil
}

// An orderedEntry is an entry whose calls are delivered each in its turn.
type orderedEntry struct {
	*Worker
	*lineEntry
	ordering *ordering
	lease    journal.Lease
	entry    journal.Entry
	jobs     []job
	deadline time.Time
}

// deliverInOrder is deliver where the calls of a user have an order.
func (w *Worker) deliverInOrder(lease journal.Lease, e *lineEntry, o *ordering) {
	oe := &orderedEntry{Worker: w, lineEntry: e, ordering: o, lease: lease, entry: lease.Entry()}
	lane := laneOf(&oe.entry)
	defer w.gate.endEntry(lane, len(oe.entry.Calls))
	oe.jobs, oe.deadline = w.jobsOf(&oe.entry, o.requests), oe.entry.Since.Add(webhook.Window+lastAttemptGrace)
	var users sync.WaitGroup
	all := oe.byUser()
	oe.open = len(all)
	for _, calls := range all {
		users.Go(func() {
			for _, i := range calls {
				oe.deliverOne(lane, i)
			}
			o.lines.leaveEntry(e)
		})
	}
	w.gate.arrive()
	users.Wait()
	oe.end()
}

// byUser returns the calls of an entry, those of each user in their order.
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

// deliverOne brings one call to its end, or to when it is due.
func (oe *orderedEntry) deliverOne(lane laneKey, i int) {
	j, position := &oe.jobs[i], oe.entry.Position(i)
	due, ok := time.Time{}, true
	send := oe.ordering.admitting.Err() != nil || j.prepare()
	if send {
		due, ok = oe.ordering.lines.turn(oe.ordering.admitting, oe.lineEntry, j.call, position, j.note)
	}
	if ok && !oe.saveJoined(j.call) {
		j.delivery, due, ok = delivery{}, time.Now().Add(journalRetry), false
	}
	switch {
	case ok && send && oe.gate.runOne(oe.ordering.admitting, lane, &j.ticket, oe.deadline):
		j.delivery = expired("it could not be tried in that time")
	case !ok && !due.IsZero():
		oe.postpone(j, due)
	}
	if j.delivery.decided && j.delivery.State == tracking.StatePending {
		oe.retryOrGiveUp(j)
	}
	switch d := &j.delivery; {
	case d.decided && d.State != tracking.StatePending:
		oe.ordering.lines.end(j.call, position)
	case d.decided && j.destination.OnFailure == tracking.OnFailureOvertake:
		oe.ordering.lines.leave(j.call, position)
	default:
		oe.ordering.lines.putOff(j.call, position, d.due)
	}
}

// saveJoined remembers what an alias call joins, and reports whether that succeeded.
func (oe *orderedEntry) saveJoined(c *tracking.Call) bool {
	pair, ok := joinedBy(c)
	if !ok {
		return true
	}
	ctx, stop := oe.untilDrained()
	defer stop()
	err := oe.Joined.Save(ctx, pair)
	if err != nil {
		oe.Log.Error("which ids are of one user cannot be stored; the call waits", "destination", oe.name, "call", c.ID, "error", err)
	}
	return err == nil
}

// postpone has a call wait until it is due, but not longer than its window.
func (oe *orderedEntry) postpone(j *job, due time.Time) {
	now := time.Now()
	last := oe.entry.Since.Add(webhook.Window)
	if !now.Before(last) {
		last = oe.deadline
	}
	if !now.Before(last) {
		j.delivery = expired("calls of its user that came before it were not done in that time")
		return
	}
	if due.After(last) {
		due = last
	}
	j.delivery.due = due
}

// retryOrGiveUp schedules the next attempt at a call that has failed, or fails it permanently.
// A call that could not connect waits for no more than a second: the breaker paces the
// attempts at a destination that cannot be reached, and the first calls of its users are all
// that can probe it.
func (oe *orderedEntry) retryOrGiveUp(j *job) {
	now, d := time.Now(), &j.delivery
	window := oe.entry.Since
	limit, first := j.destination.GiveUpAfter, j.note.failedSince(now)
	if end := first.Add(limit - webhook.Window); limit > 0 && end.Before(window) {
		window = end
	}
	attempt := j.attempt
	if d.missed {
		attempt = 1
	}
	next, inTime := sender.Next(now, window, attempt, d.retryAfter, oe.Jitter())
	switch {
	case inTime:
		d.due = next
	case window.Before(oe.entry.Since):
		*d = failed(fmt.Sprintf("it has held the line of its user for %v; %s", limit, d.Reason))
	default:
		*d = expired(d.Reason)
	}
}

// end tells the journal how the entry ended, after those that have to end before.
func (oe *orderedEntry) end() {
	if !oe.ordering.lines.awaitBefore(oe.lineEntry) {
		oe.place(true)
		oe.lease.Return() // what was delivered is repeated behind what is
		oe.ordering.lines.finish(oe.lineEntry, &oe.entry, nil)
		return
	}
	r := resultInOrder(oe.jobs)
	r.Placed = func() { oe.place(false) }
	stored := oe.finish(oe.lease, oe.jobs, r)
	oe.place(true)
	if !stored {
		r.Outcomes = nil
	}
	oe.ordering.lines.finish(oe.lineEntry, &oe.entry, r.Outcomes)
}
