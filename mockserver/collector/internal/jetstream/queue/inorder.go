package queue

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
)

// Calls are ordered by their position in CALLS. A replayed call keeps its original position. A
// message that was read ahead of its turn, or is a replay, is leased only after all messages
// before it have been received.

// partPositions is the number of positions of a message of CALLS.
const partPositions = record.PartCalls * record.MaxParts

// positions returns the values of Entry.First and Entry.Places for the calls of a part. If places
// is nil, it stands for all calls.
func positions(ref record.Ref, places []int) (uint64, []int) {
	first := ref.Seq * partPositions
	if places == nil {
		first += uint64(ref.Part) * record.PartCalls
	}
	return first, places
}

// limit returns the highest Ref.Number that may be leased in order: the last part of the last
// received message. The caller holds the lock.
func (q *Queue) limit() uint64 {
	return record.Ref{Seq: q.received, Part: record.MaxParts - 1}.Number()
}

// placeReplays sorts replays that were received while no order was required among the first
// attempts. The caller holds the lock.
func (q *Queue) placeReplays() {
	for _, it := range q.ready.Take((*item).isReplay) {
		it.Due = time.Time{}
		q.ready.Push(it)
	}
}

// reachReplay reports whether the first item is a replay that can be leased now: this process must have
// handled all earlier messages of CALLS. If so, reachReplay advances q.received to the replay, because
// the consumer does not deliver the message of a replay.
func (q *Queue) reachReplay(ctx context.Context) (bool, error) {
	q.mu.Lock()
	number, ok := q.ready.First()
	waits, phase := ok && number > q.limit(), q.phase
	q.mu.Unlock()
	if !waits {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, store.RequestTimeout)
	defer cancel()
	consumer, err := q.set.JS.Consumer(ctx, q.set.Names.Stream(record.StreamCalls), q.consumerName(record.StreamCalls))
	if err != nil {
		return false, fmt.Errorf("journal: querying the consumer of CALLS for %q: %w", q.name, err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	info := consumer.CachedInfo()
	if phase.Err() != nil || info.NumPending > 0 || info.Delivered.Consumer > q.handled {
		return false, nil // the earlier messages wake the reader when they arrive
	}
	q.received = max(q.received, record.RefOf(number).Seq)
	return true, nil
}

// park adds the calls of a parked outcome to q.parked, where they wait for Resume.
func (q *Queue) park(o *record.Outcome) {
	if len(o.Again) == 0 || !record.IsParked(o.Due.UnixNano()) {
		return
	}
	q.parkItem(&item{Retry: record.Retry{Ref: o.Ref, Attempt: o.Attempt + 1, Places: o.Again, Notes: o.Notes}})
}

// Resume implements journal.Reader.
func (r *reader) Resume(position uint64) {
	q := r.queue
	ref, _ := refOf(position)
	q.mu.Lock()
	defer q.mu.Unlock()
	if it := q.parked[ref]; it != nil {
		delete(q.parked, ref)
		it.Due, it.since = time.Now(), time.Now()
		q.add(it)
	}
}

// refOf returns the part that contains a position, and the place of the call in the message.
func refOf(position uint64) (ref record.Ref, place int) {
	place = int(position % partPositions)
	return record.Ref{Seq: position / partPositions, Part: place / record.PartCalls}, place
}

// unpark publishes all parked retries in RETRY. The caller holds the lock.
func (q *Queue) unpark() {
	clear(q.parked)
	q.set.Work.Go(func() {
		q.repeat(q.ctx, "scheduling parked calls", func() error { return q.set.settler.Unpark(q.set.Ctx, q.name) })
	})
}

// repeat calls try until it succeeds or ctx ends.
func (q *Queue) repeat(ctx context.Context, what string, try func() error) {
	for {
		err := try()
		if err == nil || ctx.Err() != nil {
			return
		}
		q.set.Log.Warn(what+" failed; retrying", "destination", q.name, "error", err)
		if pause.For(ctx, time.Second) != nil {
			return
		}
	}
}

// Waiting implements journal.Reader.
func (r *reader) Waiting(ctx context.Context, yield func(e journal.Entry, due time.Time) bool) error {
	q := r.queue
	q.mu.Lock()
	clear(q.parked)
	q.mu.Unlock()
	var notes store.Notes
	for _, w := range q.set.ledger.Retries([]string{q.name}, func(ledger.Retry) bool { return true }) {
		it := &item{Retry: w.Stored()}
		if err := notes.Add(ctx, q.set.Store, q.name, &it.Retry); err != nil {
			return fmt.Errorf("journal: a retry for %q: %w", q.name, err)
		}
		s, err := q.bodies(it)
		if store.IsMissing(err) {
			if record.IsParked(w.Due) {
				q.parkItem(it)
				first, _ := positions(w.Ref, nil)
				r.Resume(first)
			}
			continue // the entry fails when it is leased
		}
		if err != nil {
			return fmt.Errorf("journal: the calls of a retry for %q: %w", q.name, err)
		}
		due := time.Unix(0, w.Due)
		if record.IsParked(w.Due) {
			due = time.Time{}
			q.parkItem(it)
		}
		if !yield(q.entry(it, s), due) {
			break
		}
	}
	return nil
}

// parkItem adds an item to q.parked, unless this process has already received or resumed its attempt.
func (q *Queue) parkItem(it *item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.find(it.Ref, it.Attempt) == nil {
		q.parked[it.Ref] = it
	}
}

// IsPending implements journal.Reader.
func (r *reader) IsPending(position uint64) (pending bool) {
	q := r.queue
	ref, place := refOf(position)
	q.set.ledger.With(q.name, func(a *ledger.Account) {
		w, waits := a.Retries[ref]
		pending = waits && slices.Contains(w.Which.Places(ref), place) || !waits && !a.Ended(ref)
	})
	return pending
}
