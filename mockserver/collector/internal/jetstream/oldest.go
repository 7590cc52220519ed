package jetstream

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
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
	j.account.with(destination, func(b *book) {
		now.floor, now.done, sources = b.floor, len(b.done), b.sources()
	})
	if at := j.oldestAtWork(destination); !at.IsZero() {
		return at, nil
	}
	j.oldest.mu.Lock()
	before, ok := j.oldest.found[destination]
	j.oldest.mu.Unlock()
	if ok && before.floor == now.floor && before.done == now.done {
		return before.at, nil
	}
	t := j.tail(streamCalls, now.floor+1, func(m *nats.Msg, seq uint64) error {
		parsed, err := j.names.parseCalls(seq, m.Subject, m.Header)
		if err != nil {
			return err
		}
		if j.account.with(destination, func(b *book) { ok = b.isOpen(parsed) }) && !ok {
			return nil
		}
		now.at = parsed.at
		return errEnough
	})
	t.subjects, t.headersOnly, t.batch = j.names.callSubjects(sources), true, 16
	if err := t.scan(ctx); err != nil {
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

// oldestAtWork returns when the oldest call was accepted that this process works
// at, if it is the only one: then it is the oldest of all.
func (j *Journal) oldestAtWork(destination string) (oldest time.Time) {
	j.mu.Lock()
	q := j.queues[destination]
	j.mu.Unlock()
	if q == nil || j.options.NATS != nil {
		return oldest
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for seq, p := range q.parcels {
		if seq > q.last {
			continue // it has overtaken others
		}
		if oldest.IsZero() || p.at.Before(oldest) {
			oldest = p.at
		}
	}
	return oldest
}
