package queue

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// Renewal is the interval between calls of Set.Renew.
const Renewal = AckWait / 3

// NewSet returns a set without queues. Call Begin before Open.
func NewSet(s *store.Store, settler Settler) *Set {
	return &Set{Store: s, settler: settler, queues: map[string]*Queue{}}
}

// Begin sets the ledger and starts writing outcomes.
func (set *Set) Begin(l *ledger.Live) {
	set.ledger = l
	set.results = newResults(set.Store, l, &set.written, set.Names.Subject("o"))
	set.Work.Go(set.results.run)
}

// Open returns a reader of a destination's queue.
func (set *Set) Open(ctx context.Context, destination string) (journal.Reader, error) {
	q, err := set.queue(ctx, destination)
	if err != nil {
		return nil, err
	}
	return q.newReader(), nil
}

// queue returns the queue of a destination. It creates the queue if the destination has been
// attached again since.
func (set *Set) queue(ctx context.Context, destination string) (*Queue, error) {
	var attached uint64
	var since int64
	if !set.ledger.With(destination, func(a *ledger.Account) { attached, since = a.Attached, a.Since }) {
		return nil, fmt.Errorf("%w: it was detached in the meantime", journal.ErrNotAttached)
	}
	set.mu.Lock()
	q := set.queues[destination]
	set.mu.Unlock()
	if q != nil && q.attached == attached {
		return q, set.Retry(ctx, q.ensure)
	}
	if q != nil {
		q.close()
	}
	q = newQueue(set, destination, attached, time.UnixMilli(since))
	if err := set.Retry(ctx, q.ensure); err != nil {
		q.close()
		return nil, err
	}
	set.mu.Lock()
	defer set.mu.Unlock()
	if set.closed {
		q.close()
		return nil, journal.ErrClosed
	}
	set.queues[destination] = q
	q.start()
	return q, nil
}

// Leave closes the queue of a destination that was detached. before is the sequence number of the
// message of CALLS that detached it. Leave keeps the queue if the destination was attached again
// after that message.
func (set *Set) Leave(destination string, before uint64) {
	set.mu.Lock()
	q := set.queues[destination]
	if q != nil && q.attached < before {
		delete(set.queues, destination)
	} else {
		q = nil
	}
	set.mu.Unlock()
	if q != nil {
		q.close()
	}
}

// Record stores an outcome, and reports whether the outcome counts. It does not count if another
// process has already ended the attempt.
func (set *Set) Record(o *record.Outcome) (counted bool, err error) {
	state := <-set.results.write(o, false)
	return state.counted, state.err
}

// Attached returns the destinations with a queue in this process. The values are the messages of
// CALLS that attached the destinations.
func (set *Set) Attached() map[string]uint64 {
	all := map[string]uint64{}
	for _, q := range set.all() {
		all[q.name] = q.attached
	}
	return all
}

// Close closes all queues.
func (set *Set) Close() {
	set.mu.Lock()
	queues := set.queues
	set.queues, set.closed = nil, true
	set.mu.Unlock()
	for _, q := range queues {
		q.close()
	}
}

// with calls f with the queue of a destination while the lock is held. It does nothing if this process
// has no queue for the destination.
func (set *Set) with(destination string, f func(*Queue)) {
	set.mu.Lock()
	q := set.queues[destination]
	set.mu.Unlock()
	if q != nil {
		q.mu.Lock()
		defer q.mu.Unlock()
		f(q)
	}
}

func (set *Set) all() []*Queue {
	set.mu.Lock()
	defer set.mu.Unlock()
	return slices.Collect(maps.Values(set.queues))
}

// Wake wakes the goroutines that wait in Next. Call it when the store becomes writable again,
// because Next leases nothing before.
func (set *Set) Wake() {
	for _, q := range set.all() {
		q.mu.Lock()
		q.wake()
		q.mu.Unlock()
	}
}

// Has reports whether this process has an entry.
func (set *Set) Has(destination string, ref record.Ref) (has bool) {
	set.with(destination, func(q *Queue) { has = q.items[ref] != nil })
	return has
}

// AnyOrder reports whether this process delivers a destination's entries in any order.
func (set *Set) AnyOrder(destination string) (anyOrder bool) {
	set.with(destination, func(q *Queue) { anyOrder = q.unparked })
	return anyOrder
}

// Leased returns the entries that are leased in this process.
func (set *Set) Leased(destination string) (refs []record.Ref) {
	set.with(destination, func(q *Queue) {
		for ref, it := range q.items {
			if it.leased {
				refs = append(refs, ref)
			}
		}
	})
	return refs
}

// Oldest returns the time when the oldest call in this process was accepted. It returns the zero
// time if other processes share the journal, because they may have an older call.
func (set *Set) Oldest(destination string) (oldest time.Time) {
	if set.Shared {
		return oldest
	}
	var floor uint64
	set.ledger.With(destination, func(a *ledger.Account) { floor = a.Floor })
	set.with(destination, func(q *Queue) {
		for seq, p := range q.messages {
			if seq > q.received || seq <= floor {
				continue // the message was read ahead of its turn, or has expired
			}
			if oldest.IsZero() || p.at.Before(oldest) {
				oldest = p.at
			}
		}
	})
	return oldest
}

// Renew renews the server's leases on the messages in this process. It returns messages to the
// server that no reader has requested recently.
func (set *Set) Renew(now time.Time) {
	for _, q := range set.all() {
		q.mu.Lock()
		var naks []*nats.Msg
		if len(q.wants) == 0 && q.ownership == nil {
			naks = q.removeIdle(func(it *item) bool { return it.isIdle(now.Add(-AckWait/2)) && (it.message != nil || it.msg != nil) })
		}
		var alive []*nats.Msg
		for _, p := range q.messages {
			if p.msg != nil {
				alive = append(alive, p.msg)
			}
		}
		for _, it := range q.items {
			for ; it != nil; it = it.next {
				if it.msg != nil {
					alive = append(alive, it.msg)
				}
			}
		}
		q.mu.Unlock()
		for _, m := range alive {
			_ = m.InProgress()
		}
		for _, m := range naks {
			_ = m.Nak()
		}
	}
}

// Expire marks the calls of an entry as failed and stores the reason. The entry must not be leased.
func (set *Set) Expire(ctx context.Context, destination string, attached uint64, ref record.Ref, attempt int, reason string) error {
	q := &Queue{set: set, attachment: attachment{name: destination, attached: attached}}
	it := &item{Retry: record.Retry{Ref: ref, Attempt: attempt}}
	waits := false
	set.ledger.With(q.name, func(a *ledger.Account) {
		if w, retrying := a.Retries[ref]; retrying {
			it.Retry = ledger.Retry{Destination: destination, Ref: ref, PendingRetry: w}.Stored()
		}
		waits = a.Attached == q.attached && !a.Tried(ref, attempt)
	})
	if !waits {
		return nil
	}
	s, err := q.bodies(it)
	if store.IsMissing(err) && it.Places != nil { // a first attempt has no places, and the number of calls in a missing message is unknown
		q.failUnreadable(it)
		return nil
	}
	if err != nil {
		return err
	}
	l := &lease{queue: q, item: it, entry: q.entry(it, s)}
	ended := tracking.Outcome{State: tracking.StateFailed, Reason: reason}
	o, failed, traces := l.outcome(journal.Result{Outcomes: slices.Repeat([]tracking.Outcome{ended}, len(s.bodies))})
	defer set.storing(destination, failed)()
	if counted, err := set.Record(o); err != nil || !counted {
		return err
	}
	q.settle(it, o, failed, traces)
	return nil
}

// AwaitFailedStored waits until FAILED contains all calls of a destination that the
// ledger counts as failed.
func (set *Set) AwaitFailedStored(ctx context.Context, destination string) error {
	return set.unstored.Wait(ctx, destination)
}
