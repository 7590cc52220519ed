package jetstream_test

import (
	"context"
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

// checkWork compares the work since an earlier time with the calls. Without faults, each call has few
// leases and messages. The other work is periodic. The lock is held.
func (w *world) checkWork(before workload, since time.Time) {
	seconds, collectors := int(time.Since(since)/time.Second)+1, len(w.collectors)
	calls := w.work.attempts - before.attempts + w.work.results - before.results
	for _, c := range []struct {
		what       string
		n, perCall int
		perSecond  int // of each collector
	}{
		{"leases", w.work.leases - before.leases, 1, 1},
		{"messages", w.work.published - before.published, 2, 2},
		{"requests", w.work.requests - before.requests, 4, 15},
	} {
		limit := 200 + calls*c.perCall + seconds*collectors*c.perSecond
		w.noteLocked("%d %s for %d attempts and results in %d s by %d collectors, limit %d", c.n, c.what, calls, seconds, collectors, limit)
		if c.n > limit {
			w.problem("%d %s for %d attempts and results in %d s by %d collectors", c.n, c.what, calls, seconds, collectors)
		}
	}
}
