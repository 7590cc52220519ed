package queue

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A lease implements journal.Lease for an item.
type lease struct {
	queue   *Queue
	item    *item
	results *results // writes the outcome
	entry   journal.Entry
	ended   atomic.Bool // Finish or Return was called
}

func (l *lease) Entry() journal.Entry { return l.entry }

// Finish stores the results of the calls and settles the outcome. If settling fails, it is
// retried in the background.
func (l *lease) Finish(ctx context.Context, r journal.Result) error {
	if len(r.Outcomes) != len(l.entry.Calls) {
		return fmt.Errorf("journal: %d outcomes for the %d calls of entry %s", len(r.Outcomes), len(l.entry.Calls), l.entry.ID)
	}
	if l.ended.Swap(true) {
		return nil
	}
	o, failed, traces := l.outcome(r)
	stored := l.queue.set.storing(l.queue.name, failed)
	written := l.results.write(o, r.MayWait)
	if r.OnPlaced != nil {
		r.OnPlaced()
	}
	end := func(state resultState) error {
		defer stored()
		return l.end(o, failed, traces, state)
	}
	select {
	case state := <-written:
		return end(state)
	case <-ctx.Done():
		l.queue.set.Work.Go(func() { _ = end(<-written) })
		return ctx.Err()
	}
}

// outcome returns the outcome to store, and the calls to store in FAILED with their traces. These
// are failed calls, and filtered calls that can be replayed.
func (l *lease) outcome(r journal.Result) (o *record.Outcome, failed []tracking.Call, traces event.Traces) {
	q, it := l.queue, l.item
	o = &record.Outcome{Destination: q.name, Attached: q.attached, Ref: it.Ref, Attempt: it.Attempt, Decided: time.Now(), Due: r.RetryAt}
	if r.Parked {
		o.Due = record.Parked
	}
	places := it.Places
	if places == nil {
		places = allPlaces(it.Ref, it.Ref.Part*record.PartCalls+len(l.entry.Calls))
	}
	var notes []string
	noted := false
	for i, c := range r.Outcomes {
		switch kept := r.Keeps(i); {
		case c.State == tracking.StateDelivered:
			o.Delivered++
		case c.State == tracking.StateFiltered && !kept:
			o.Filtered++
		case c.State == tracking.StateFailed || kept:
			o.Failed = append(o.Failed, record.Failure{Place: places[i], Filtered: kept, Reason: c.Reason})
			traces = traces.With(len(failed), l.entry.Traces.At(i))
			failed = append(failed, l.entry.Calls[i])
		default:
			o.Again = append(o.Again, places[i])
			notes = append(notes, c.Note)
			noted = noted || c.Note != ""
			if at := l.entry.Calls[i].ReceivedAt; o.Accepted.IsZero() || at.Before(o.Accepted) {
				o.Accepted = at
			}
		}
	}
	if noted {
		o.Notes = notes
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	o.Low = q.lowWater()
	return o, failed, traces
}

// end settles a stored outcome.
func (l *lease) end(o *record.Outcome, failed []tracking.Call, traces event.Traces, state resultState) error {
	q, it := l.queue, l.item
	if state.err != nil {
		q.postpone(it)
		return state.err
	}
	if !state.counted {
		q.set.Log.Info("an attempt had already ended", "destination", q.name, "entry", l.entry.ID)
		return q.settleEnded(it)
	}
	q.settle(it, o, failed, traces)
	q.park(o)
	return nil
}

// settle settles an outcome and removes the item. If this fails, settle retries in the background
// until the journal is closed. After that, the next start settles the outcome.
func (q *Queue) settle(it *item, o *record.Outcome, failed []tracking.Call, traces event.Traces) {
	err := q.set.settler.Settle(o, failed, traces)
	if err == nil {
		q.drop(it)
		return
	}
	q.set.Log.Warn("settling an outcome failed; retrying", "destination", q.name, "message", it.Ref.Seq, "attempt", it.Attempt, "error", err)
	q.mu.Lock()
	q.removeItem(it)
	q.mu.Unlock()
	stored := q.set.storing(q.name, failed)
	q.set.Work.Go(func() {
		defer stored()
		for pause.For(q.set.Ctx, time.Second) == nil {
			if q.set.settler.Settle(o, failed, traces) == nil {
				q.drop(it)
				return
			}
		}
	})
}

// settleEnded settles the outcome of an attempt that another process has ended, and removes the item.
func (q *Queue) settleEnded(it *item) error {
	if q.set.Shared {
		if err := q.set.settler.SettleFor(q.set.Ctx, q.name, it.since, []uint64{it.Ref.Seq}); err != nil {
			q.postpone(it)
			return err
		}
	}
	q.drop(it)
	return nil
}

// Return makes the entry ready to be leased again.
func (l *lease) Return() {
	if l.ended.Swap(true) {
		return
	}
	q, it := l.queue, l.item
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.items[it.Ref] != it {
		return
	}
	it.returned = time.Now()
	q.makeReady(it)
}

// failUnreadable ends an item whose calls cannot be read. They count as failed and cannot
// be replayed.
func (q *Queue) failUnreadable(it *item) {
	o := &record.Outcome{Destination: q.name, Attached: q.attached, Ref: it.Ref, Attempt: it.Attempt}
	places := it.Places
	switch {
	case places != nil:
	case it.message != nil:
		places = allPlaces(it.Ref, it.message.calls)
	default: // a replay
		q.set.ledger.With(q.name, func(a *ledger.Account) { places = a.Retries[it.Ref].Which.Places(it.Ref) })
	}
	for _, place := range places {
		o.Failed = append(o.Failed, record.Failure{Place: place, Reason: "the stored call is missing or corrupt"})
	}
	written := q.set.results.write(o, false)
	q.set.Work.Go(func() {
		if state := <-written; state.err != nil {
			q.postpone(it)
			return
		}
		q.drop(it)
	})
}
