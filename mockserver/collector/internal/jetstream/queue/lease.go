package queue

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/tracecontext"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A lease is an item that somebody works at.
type lease struct {
	queue   *Queue
	item    *item
	results *results // by which its outcome is stored
	entry   journal.Entry
	ended   atomic.Bool // Finish or Return was called
}

func (l *lease) Entry() journal.Entry { return l.entry }

// Finish stores how the calls ended. What follows from it is done before it
// returns where possible, and again later where not.
func (l *lease) Finish(ctx context.Context, r journal.Result) error {
	if len(r.Outcomes) != len(l.entry.Calls) {
		return fmt.Errorf("journal: %d outcomes for the %d calls of entry %s", len(r.Outcomes), len(l.entry.Calls), l.entry.ID)
	}
	if l.ended.Swap(true) {
		return nil
	}
	o, given, traces := l.outcome(r)
	kept := l.queue.set.keeping(l.queue.name, given)
	written := l.results.write(o, r.MayWait)
	if r.OnPlaced != nil {
		r.OnPlaced()
	}
	end := func(state resultState) error {
		defer kept()
		return l.end(o, given, traces, state)
	}
	select {
	case state := <-written:
		return end(state)
	case <-ctx.Done():
		l.queue.set.Work.Go(func() { _ = end(<-written) })
		return ctx.Err()
	}
}

// outcome puts the result into the form in which it is stored, and returns the
// calls that are given up, or filtered and kept.
func (l *lease) outcome(r journal.Result) (o *record.Outcome, given []tracking.Call, traces tracecontext.List) {
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
			traces = traces.With(len(given), l.entry.Traces.At(i))
			given = append(given, l.entry.Calls[i])
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
	o.Low = q.low()
	return o, given, traces
}

// end does what follows from a stored outcome.
func (l *lease) end(o *record.Outcome, given []tracking.Call, traces tracecontext.List, state resultState) error {
	q, it := l.queue, l.item
	if state.err != nil {
		q.putOff(it)
		return state.err
	}
	if !state.counted {
		q.set.Log.Info("an entry has ended before", "destination", q.name, "entry", l.entry.ID)
		return q.endedBefore(it)
	}
	q.settle(it, o, given, traces)
	q.park(o)
	return nil
}

// settle does what follows from an outcome, and forgets the item: now, or later where it
// cannot be done now.
func (q *Queue) settle(it *item, o *record.Outcome, given []tracking.Call, traces tracecontext.List) {
	err := q.set.settler.Settle(o, given, traces)
	if err == nil {
		q.drop(it)
		return
	}
	q.set.Log.Warn("what follows from an outcome is done later", "destination", q.name, "message", it.Ref.Seq, "attempt", it.Attempt, "error", err)
	q.settleLater(it, o, given, traces)
}

// endedBefore does what follows from the outcome of an item that has ended in another way,
// and forgets the item.
func (q *Queue) endedBefore(it *item) error {
	if err := q.set.settler.SettleFor(q.set.Ctx, q.name, []uint64{it.Ref.Seq}); err != nil {
		q.putOff(it)
		return err
	}
	q.drop(it)
	return nil
}

// Return gives the entry back.
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
	it.leased, it.since = false, time.Now()
	q.ready.Push(it)
	q.wake()
}

// settleLater tries again to do what follows from an outcome, until it is done
// or the journal is closed: then it is done at the next start.
func (q *Queue) settleLater(it *item, o *record.Outcome, given []tracking.Call, traces tracecontext.List) {
	kept := q.set.keeping(q.name, given)
	q.set.Work.Go(func() {
		defer kept()
		for pause.For(q.set.Ctx, time.Second) == nil {
			if q.set.settler.Settle(o, given, traces) == nil {
				q.drop(it)
				return
			}
		}
	})
}

// giveUp ends an item whose calls cannot be read: they count as failed, and
// nothing of them is left to be replayed.
func (q *Queue) giveUp(it *item) {
	o := &record.Outcome{Destination: q.name, Attached: q.attached, Ref: it.Ref, Attempt: it.Attempt}
	places := it.Places
	if places == nil && it.message != nil {
		places = allPlaces(it.Ref, it.message.calls)
	}
	for _, place := range places {
		o.Failed = append(o.Failed, record.Failure{Place: place, Reason: "the call is no longer stored, or damaged"})
	}
	written := q.set.results.write(o, false)
	q.set.Work.Go(func() {
		if state := <-written; state.err != nil {
			q.putOff(it)
			return
		}
		q.drop(it)
	})
}
