package jetstream_test

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
)

// A workload counts the work of all collectors.
type workload struct {
	requests  int // requests to NATS
	published int // messages published to streams
	leases    int // leases of entries
	attempts  int // requests to receivers
	results   int // results of attempts, and of calls without a request
}

// A countedJournal counts leases.
type countedJournal struct {
	journal.Journal
	world *world
}

// Attach implements journal.Journal.
func (j countedJournal) Attach(ctx context.Context, destination string, sources []string) (journal.Reader, error) {
	r, err := j.Journal.Attach(ctx, destination, sources)
	if err != nil {
		return nil, err
	}
	return countedReader{r, j.world}, nil
}

type countedReader struct {
	journal.Reader
	world *world
}

// Next implements journal.Reader.
func (r countedReader) Next(ctx context.Context, want journal.Want) (journal.Lease, error) {
	l, err := r.Reader.Next(ctx, want)
	if err == nil {
		r.world.mu.Lock()
		defer r.world.mu.Unlock()
		r.world.work.leases++
	}
	return l, err
}

// checkWork compares the work since an earlier time with the calls. Each call has few leases and
// messages. The other work is periodic. While a disk is full, each writer tries again about ten times
// a second. The limits are about twice the highest values of 60 seeds. The lock is held.
func (w *world) checkWork(before workload, since time.Time) {
	seconds, collectors := time.Since(since).Seconds(), len(w.collectors)
	calls := w.work.attempts - before.attempts + w.work.results - before.results
	messages := 1.0
	if before == (workload{}) { // the phase with faults
		messages = 12
	}
	for _, c := range []struct {
		what      string
		n, once   int
		perCall   float64
		perSecond float64 // of each collector
	}{
		{"leases", w.work.leases - before.leases, 50, 1, 0.5},
		{"messages", w.work.published - before.published, 100, 1, messages},
		{"requests", w.work.requests - before.requests, 300, 3, 12},
	} {
		limit := c.once + int(float64(calls)*c.perCall+seconds*float64(collectors)*c.perSecond)
		text := fmt.Sprintf("%d %s for %d attempts and results in %.0f s by %d collectors, limit %d", c.n, c.what, calls, seconds, collectors, limit)
		if w.noteLocked("%s", text); c.n > limit {
			w.problem("%s", text)
		}
	}
}
