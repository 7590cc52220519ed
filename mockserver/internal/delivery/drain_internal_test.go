package delivery

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
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

const (
	// slowRead is how long a distantReader takes to lease an entry again.
	slowRead = 500 * time.Microsecond
	// slowSync is how long it takes to store a result.
	slowSync = 20 * time.Millisecond
)

// A distantReader reads and stores as slowly as a cluster with a slow disk.
type distantReader struct{ journal.Reader }

func (r distantReader) Next(ctx context.Context, want journal.Want) (journal.Lease, error) {
	l, err := r.Reader.Next(ctx, want)
	if err != nil {
		return nil, err
	}
	if l.Entry().Attempt > 1 {
		time.Sleep(slowRead)
	}
	return distantLease{l}, nil
}

type distantLease struct{ journal.Lease }

func (l distantLease) Finish(ctx context.Context, r journal.Result) error {
	if r.OnPlaced != nil {
		r.OnPlaced()
		r.OnPlaced = nil
	}
	time.Sleep(slowSync)
	return l.Lease.Finish(ctx, r)
}

// TestDrainAfterAnOutage checks that an ordered destination drains as fast after an outage as
// without one.
func TestDrainAfterAnOutage(t *testing.T) {
	for _, users := range []int{20, 200} {
		for _, status := range []int{0, http.StatusServiceUnavailable} {
			for _, bad := range []int{0, 15} {
				if testing.Short() && (users > 20 || bad == 0) {
					continue
				}
				t.Run(fmt.Sprint(users, status, bad), func(t *testing.T) {
					without, after := drain(t, users, 0, status, bad), drain(t, users, 20*time.Second, status, bad)
					t.Logf("%v without an outage, %v after it", without, after)
					most := without * 5 / 4
					if bad > 0 {
						most += time.Second // users whose calls fail more often than others
					}
					assert.LessOrEqual(t, after, most)
				})
			}
		}
	}
}

func drain(t *testing.T, users int, down time.Duration, status, bad int) (took time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		memory := journal.NewMemory(0)
		queue, err := memory.Attach(t.Context(), "d", nil)
		require.NoError(t, err)
		d := oneWebhook("d")
		d.Order = tracking.OrderUser
		const calls, each = 2000, 10
		random := rand.New(rand.NewPCG(1, 2))
		draws := make([]int, 4*calls)
		for i := range draws {
			draws[i] = random.IntN(100)
		}
		var up atomic.Bool
		var drawn, delivered atomic.Int64
		first, most := make(chan struct{}), make(chan struct{})
		w := NewWorker(d, distantReader{queue}, WorkerConfig{
			Sender: senderFunc(func(context.Context, sender.Request) webhook.Attempt {
				time.Sleep(2 * time.Millisecond)
				if !up.Load() {
					return webhook.Attempt{Status: status, NotConnected: status == 0, Verdict: webhook.Temporary, Error: "down"}
				}
				if draws[drawn.Add(1)%int64(len(draws))] < bad {
					return webhook.Attempt{Status: http.StatusServiceUnavailable, Verdict: webhook.Temporary, Error: "busy"}
				}
				switch delivered.Add(1) {
				case 1:
					close(first)
				case calls * 9 / 10:
					close(most)
				}
				return webhook.Attempt{Status: http.StatusOK, Verdict: webhook.Success}
			}),
			Observer: &observedEvents{}, Log: slog.New(slog.DiscardHandler), Jitter: func() float64 { return 0.5 }, Concurrency: 32, Aliases: &aliasMap{pairs: map[[2]event.Key]bool{}},
		})
		for n := range calls / each {
			b := event.Batch{Source: "web", ReceivedAt: time.Now()}
			for i := range each {
				b.Calls = append(b.Calls, tracking.Call{ID: "m", Source: "web", Type: "track", UserID: fmt.Sprint("u", (n*each+i)*7919%users), ReceivedAt: time.Now(), Body: []byte(`{"type":"track","userId":"u","event":"E","timestamp":"2026-01-01T00:00:00.000Z"}`)})
			}
			require.NoError(t, memory.Append(t.Context(), b))
		}
		up.Store(down == 0)
		w.Start()
		defer w.Stop()
		time.Sleep(down)
		up.Store(true)
		<-first
		began := time.Now()
		<-most
		took = time.Since(began)
	})
	return took
}
