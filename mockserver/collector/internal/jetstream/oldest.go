package jetstream

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
)

// oldestCalls remembers what oldestFresh found.
type oldestCalls struct {
	mu    sync.Mutex // guards found
	found map[string]oldestCall
}

// An oldestCall holds as long as the book has moved no further.
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
	j.account.With(destination, func(b *ledger.Account) {
		now.floor, now.done, sources = b.Floor, len(b.Done), b.Sources()
	})
	if at := j.queues.oldest(destination); !at.IsZero() {
		return at, nil
	}
	j.oldest.mu.Lock()
	before, ok := j.oldest.found[destination]
	j.oldest.mu.Unlock()
	if ok && before.floor == now.floor && before.done == now.done {
		return before.at, nil
	}
	t := j.Tail(record.StreamCalls, now.floor+1, func(m *nats.Msg, seq uint64) error {
		parsed, err := j.Names.ParseCalls(seq, m.Subject, m.Header)
		if err != nil {
			return err
		}
		if j.account.With(destination, func(b *ledger.Account) { ok = b.IsOpen(parsed) }) && !ok {
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
	j.oldest.mu.Lock()
	defer j.oldest.mu.Unlock()
	j.oldest.found[destination] = now
	return now.at, nil
}
