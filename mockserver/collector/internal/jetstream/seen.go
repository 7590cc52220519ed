package jetstream

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
)

// seen is what this process knows of CALLS beside the ledger.
type seen struct {
	acked    atomic.Uint64                           // the last message that it knows to be stored
	onStored atomic.Pointer[func(source, id string)] // nil until OnStored
	oldest   oldestCalls
}

// Seen calls yield with each call that is stored, oldest first, until it returns
// false: its source, its messageId, and when it was accepted. With it a collector
// knows calls again that are sent again after a restart. It reads the newest
// limit calls, and some more. A million take about half a second. It returns
// ErrDamaged where one cannot be read.
func (j *Journal) Seen(ctx context.Context, limit int, yield func(source, id string, at time.Time) bool) error {
	first, err := j.newest(ctx, limit)
	if err != nil {
		return fmt.Errorf("journal: reading which calls are stored: %w", err)
	}
	t := j.Tail(record.StreamCalls, first, func(m jetstream.Msg, seq uint64) error {
		parsed, err := j.Names.ParseCalls(seq, m.Subject(), m.Headers())
		if err != nil {
			return err
		}
		if parsed.Kind == record.KindCalls && !record.EachID(parsed.IDs, func(id string) bool { return yield(parsed.Name, id, parsed.At) }) {
			return store.ErrEnough
		}
		return nil
	})
	t.HeadersOnly, t.Whole = true, j.ledger.IsKnownLoss
	if err := t.Scan(ctx); err != nil {
		return fmt.Errorf("journal: reading which calls are stored: %w", err)
	}
	return nil
}

// OnStored has f called with each call that is stored from about now on, by this
// process or by another that shares the journal: what is sent to one collector and
// again to another is known there too, after a moment. f must not block.
func (j *Journal) OnStored(f func(source, id string)) { j.seen.onStored.Store(&f) }

// newest returns a message of CALLS from which on there are at least so many
// calls, if there are so many.
func (j *Journal) newest(ctx context.Context, limit int) (uint64, error) {
	calls, err := j.Measure(ctx, record.StreamCalls)
	if err != nil {
		return 0, err
	}
	// A message has one call at least.
	if first := int64(calls.LastSeq) - int64(limit) + 1; first > int64(calls.FirstSeq) {
		return uint64(first), nil
	}
	return max(1, calls.FirstSeq), nil
}

// oldestCalls remembers what oldestFresh found.
type oldestCalls struct {
	mu    sync.Mutex // guards found
	found map[string]oldestCall
}

// An oldestCall holds as long as the account has moved no further.
type oldestCall struct {
	floor uint64
	done  int
	at    time.Time
}

// oldestFresh returns when the oldest call was accepted whose first attempt at a
// destination has not ended.
func (j *Journal) oldestFresh(ctx context.Context, destination string) (time.Time, error) {
	var now oldestCall
	var sources []string
	j.ledger.With(destination, func(b *ledger.Account) {
		now.floor, now.done, sources = b.Floor, len(b.Done), b.Sources()
	})
	if at := j.queues.Oldest(destination); !at.IsZero() {
		return at, nil
	}
	j.seen.oldest.mu.Lock()
	before, ok := j.seen.oldest.found[destination]
	j.seen.oldest.mu.Unlock()
	if ok && before.floor == now.floor && before.done == now.done {
		return before.at, nil
	}
	t := j.Tail(record.StreamCalls, now.floor+1, func(m jetstream.Msg, seq uint64) error {
		parsed, err := j.Names.ParseCalls(seq, m.Subject(), m.Headers())
		if err != nil {
			return err
		}
		if j.ledger.With(destination, func(b *ledger.Account) { ok = b.IsOpen(parsed) }) && !ok {
			return nil
		}
		now.at = parsed.At
		return store.ErrEnough
	})
	t.Subjects, t.HeadersOnly, t.Batch = j.Names.CallSubjects(sources), true, 16
	if err := t.Scan(ctx); err != nil {
		return time.Time{}, fmt.Errorf("journal: looking for the oldest call of %q: %w", destination, err)
	}
	if now.at.IsZero() {
		return time.Now(), nil // it has ended meanwhile
	}
	j.seen.oldest.mu.Lock()
	defer j.seen.oldest.mu.Unlock()
	j.seen.oldest.found[destination] = now
	return now.at, nil
}
