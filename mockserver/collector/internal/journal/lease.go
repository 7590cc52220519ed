package journal

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A lease is an item that somebody works at.
type lease struct {
	queue *queue
	item  *item
	entry journal.Entry
	ended atomic.Bool // Finish or Return was called
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
	o, given := l.outcome(r)
	written := l.queue.journal.results.write(o)
	select {
	case state := <-written:
		return l.end(o, given, state)
	case <-ctx.Done():
		go func() { _ = l.end(o, given, <-written) }()
		return ctx.Err()
	}
}

// outcome puts the result into the form in which it is stored, and returns the
// calls that are given up.
func (l *lease) outcome(r journal.Result) (o *outcome, given []tracking.Call) {
	q, it := l.queue, l.item
	o = &outcome{destination: q.name, attached: q.attached, ref: it.ref, attempt: it.attempt, decided: time.Now(), due: r.RetryAt}
	places := it.places
	if places == nil {
		places = allPlaces(it.ref, it.ref.part*partCalls+len(l.entry.Calls))
	}
	var notes []string
	noted := false
	for i, c := range r.Outcomes {
		switch c.State {
		case tracking.StateDelivered:
			o.delivered++
		case tracking.StateFiltered:
			o.filtered++
		case tracking.StateFailed:
			o.failed = append(o.failed, failure{places[i], c.Reason})
			given = append(given, l.entry.Calls[i])
		default:
			o.again = append(o.again, places[i])
			notes = append(notes, c.Note)
			noted = noted || c.Note != ""
			if at := l.entry.Calls[i].ReceivedAt; o.accepted.IsZero() || at.Before(o.accepted) {
				o.accepted = at
			}
		}
	}
	if noted {
		o.notes = notes
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	o.low = q.low()
	return o, given
}

// end does what follows from a stored outcome.
func (l *lease) end(o *outcome, given []tracking.Call, state resultState) error {
	q, it := l.queue, l.item
	if state.err != nil {
		q.putOff(it)
		return state.err
	}
	if !state.counted {
		q.journal.log.Info("an entry has ended before", "destination", q.name, "entry", l.entry.ID)
		if err := q.journal.settleFor(q.journal.ctx, q.name, it.ref.seq); err != nil {
			q.putOff(it)
			return err
		}
		q.journal.ack(q.drop(it))
		return nil
	}
	if err := q.journal.settle(o, given); err != nil {
		q.journal.log.Warn("what follows from an outcome is done later", "destination", q.name, "entry", l.entry.ID, "error", err)
		q.journal.settleLater(q, it, o, given)
		return nil
	}
	q.journal.ack(q.drop(it))
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
	if q.items[it.ref] != it {
		return
	}
	it.leased, it.since = false, time.Now()
	q.ready.PushFirst(it)
	q.wake()
}
