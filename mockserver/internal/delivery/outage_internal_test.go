package delivery

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/sender"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// A countingReader counts leases and scheduled retries.
type countingReader struct {
	journal.Reader
	leases, scheduled atomic.Int64
}

func (r *countingReader) Next(ctx context.Context, want journal.Want) (journal.Lease, error) {
	l, err := r.Reader.Next(ctx, want)
	if err != nil {
		return nil, err
	}
	r.leases.Add(1)
	return &countingLease{l, r}, nil
}

type countingLease struct {
	journal.Lease
	reader *countingReader
}

func (l *countingLease) Finish(ctx context.Context, r journal.Result) error {
	for _, o := range r.Outcomes {
		if o.State == tracking.StatePending && !r.Parked {
			l.reader.scheduled.Add(1)
			break
		}
	}
	return l.Lease.Finish(ctx, r)
}

// TestLeasesAfterAnOutage checks that the number of leases per call does not depend on the number
// of waiting calls, and that each failed attempt causes one retry.
func TestLeasesAfterAnOutage(t *testing.T) {
	for _, users := range []int{5, 200} {
		if testing.Short() && users > 5 {
			continue
		}
		t.Run(fmt.Sprint(users), func(t *testing.T) {
			few, many := leasesPerCall(t, users, 500), leasesPerCall(t, users, 2000)
			t.Logf("leases per call: %.2f and %.2f", few, many)
			assert.LessOrEqual(t, few, 0.25)
			assert.LessOrEqual(t, many, 0.25)
		})
	}
}

// leasesPerCall makes a destination fail for a while and then accept all calls, and counts the
// leases per call. Each entry has ten calls.
func leasesPerCall(t *testing.T, users, entries int) (leases float64) {
	synctest.Test(t, func(t *testing.T) {
		memory := journal.NewMemory(0)
		queue, err := memory.Attach(t.Context(), "d", nil)
		require.NoError(t, err)
		reader := &countingReader{Reader: queue}
		d := oneWebhook("d")
		d.Order = tracking.OrderUser
		const each = 10
		var up atomic.Bool
		var failed, delivered atomic.Int64
		all := make(chan struct{})
		w := NewWorker(d, reader, WorkerConfig{
			Sender: senderFunc(func(context.Context, sender.Request) webhook.Attempt {
				time.Sleep(time.Millisecond)
				if !up.Load() {
					failed.Add(1)
					return webhook.Attempt{Status: http.StatusServiceUnavailable, Verdict: webhook.Temporary, Error: "busy"}
				}
				if delivered.Add(1) == int64(entries*each) {
					close(all)
				}
				return webhook.Attempt{Status: http.StatusOK, Verdict: webhook.Success}
			}),
			Observer: &observedEvents{}, Log: slog.New(slog.DiscardHandler), Jitter: func() float64 { return 1 }, Concurrency: 32, Aliases: &aliasMap{pairs: map[[2]event.Key]bool{}},
		})
		w.Start()
		for n := range entries {
			calls := make([]tracking.Call, each)
			for i := range calls {
				calls[i] = tracking.Call{ID: "m", Source: "web", Type: "track", UserID: fmt.Sprint("u", (n*each+i)*7919%users), ReceivedAt: time.Now(), Body: []byte(`{"type":"track","userId":"u","event":"E","timestamp":"2026-01-01T00:00:00.000Z"}`)}
			}
			require.NoError(t, memory.Append(t.Context(), event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: calls}))
		}
		time.Sleep(20 * time.Second)
		up.Store(true)
		began := time.Now()
		<-all
		took := time.Since(began)
		w.Stop()
		leases = float64(reader.leases.Load()-failed.Load()) / float64(entries*each)
		t.Logf("%d users, %d calls: %d leases, %d attempts scheduled, %d failed, took %v", users, entries*each, reader.leases.Load(), reader.scheduled.Load(), failed.Load(), took)
		assert.LessOrEqual(t, reader.scheduled.Load(), failed.Load())
	})
	return leases
}

// TestRecoveryRetriesImmediately checks that the first call of each user is attempted immediately when a
// destination recovers.
func TestRecoveryRetriesImmediately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var up atomic.Bool
		const users = 20
		taken := make(chan time.Time, users)
		w, memory, _ := newTestWorker(t, func(context.Context, sender.Request) webhook.Attempt {
			if !up.Load() {
				return webhook.Attempt{Status: http.StatusServiceUnavailable, Verdict: webhook.Temporary, Error: "busy"}
			}
			taken <- time.Now()
			return webhook.Attempt{Status: http.StatusOK, Verdict: webhook.Success}
		})
		var pauses atomic.Int64
		w.Jitter = func() float64 { return float64(pauses.Add(1)%users) / users }
		w.Aliases = &aliasMap{pairs: map[[2]event.Key]bool{}}
		d := oneWebhook("d")
		d.Order = tracking.OrderUser
		w.Update(d, nil)
		w.Start()
		for n := range users {
			require.NoError(t, memory.Append(t.Context(), event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: []tracking.Call{{
				ID: "m", Source: "web", Type: "track", UserID: fmt.Sprint(n), ReceivedAt: time.Now(), Body: []byte(`{"type":"track","userId":"u","event":"E","timestamp":"2026-01-01T00:00:00.000Z"}`),
			}}}))
		}
		time.Sleep(20 * time.Minute)
		up.Store(true)
		first, last := <-taken, time.Time{}
		for range users - 1 {
			last = <-taken
		}
		assert.Less(t, last.Sub(first), time.Second)
		w.Stop()
	})
}

// TestOvertakenCallsKeepTheirSchedule checks that overtaken calls of one entry are retried at their
// own times.
func TestOvertakenCallsKeepTheirSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // guards the variables below
		next, early := map[string]time.Time{}, 0
		w, memory, _ := newTestWorker(t, func(_ context.Context, r sender.Request) webhook.Attempt {
			mu.Lock()
			defer mu.Unlock()
			if time.Until(next[r.MessageID]) > earlyTolerance {
				early++
			}
			return webhook.Attempt{Status: http.StatusServiceUnavailable, Verdict: webhook.Temporary, Error: "busy"}
		})
		w.Observer = observerFunc(func(e event.Event) {
			if ended, ok := e.(tracking.Ended); ok {
				mu.Lock()
				defer mu.Unlock()
				next[ended.CallID] = ended.RetryAt
			}
		})
		var pauses atomic.Int64
		w.Jitter = func() float64 { return float64(pauses.Add(1)*7%20+1) / 20 }
		w.Aliases = &aliasMap{pairs: map[[2]event.Key]bool{}}
		d := oneWebhook("d")
		d.Order, d.OnFailure = tracking.OrderUser, tracking.OnFailureOvertake
		w.Update(d, nil)
		w.Start()
		b := event.Batch{Source: "web", ReceivedAt: time.Now()}
		for n := range 20 {
			b.Calls = append(b.Calls, tracking.Call{
				ID: fmt.Sprint(n), Source: "web", Type: "track", UserID: fmt.Sprint(n), ReceivedAt: time.Now(), Body: []byte(`{"type":"track","userId":"u","event":"E","timestamp":"2026-01-01T00:00:00.000Z"}`),
			})
		}
		require.NoError(t, memory.Append(t.Context(), b))
		time.Sleep(30 * time.Minute)
		w.Stop()
		assert.Len(t, next, 20)
		assert.Zero(t, early, "early attempts")
	})
}

// TestProbesWithFewUsers checks that an unreachable destination is probed once per second even if
// few users have waiting calls, and that all calls are delivered when it recovers.
func TestProbesWithFewUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var up atomic.Bool
		var tried atomic.Int64
		taken := make(chan time.Time, 2)
		w, memory, _ := newTestWorker(t, func(context.Context, sender.Request) webhook.Attempt {
			if !up.Load() {
				tried.Add(1)
				return webhook.Attempt{NotConnected: true, Verdict: webhook.Temporary, Error: "refused"}
			}
			taken <- time.Now()
			return webhook.Attempt{Status: http.StatusOK, Verdict: webhook.Success}
		})
		w.Aliases = &aliasMap{pairs: map[[2]event.Key]bool{}}
		d := oneWebhook("d")
		d.Order = tracking.OrderUser
		w.Update(d, nil)
		w.Start()
		for range 2 {
			require.NoError(t, memory.Append(t.Context(), event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: []tracking.Call{{
				ID: "m", Source: "web", Type: "track", UserID: "u", ReceivedAt: time.Now(), Body: []byte(`{"type":"track","userId":"u","event":"E","timestamp":"2026-01-01T00:00:00.000Z"}`),
			}}}))
		}
		time.Sleep(time.Hour)
		assert.InDelta(t, 3600, tried.Load(), 50)
		up.Store(true)
		began := time.Now()
		<-taken
		assert.Less(t, (<-taken).Sub(began), 2*time.Second)
		w.Stop()
	})
}
