package delivery

import (
	"context"
	"errors"
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

// A senderFunc is the Sender of a worker.
type senderFunc func(ctx context.Context, r sender.Request) webhook.Attempt

func (f senderFunc) Send(ctx context.Context, r sender.Request) webhook.Attempt { return f(ctx, r) }

// observedEvents is an Observer that records events.
type observedEvents struct {
	mu     sync.Mutex // guards events
	events []event.Event
}

func (l *observedEvents) Observe(e event.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
}

// oneWebhook returns a destination with one webhook.
func oneWebhook(name string) tracking.Destination {
	return tracking.Destination{Name: name, Settings: webhook.Settings{Webhooks: []webhook.Endpoint{{URL: "http://h/1"}}}}
}

// newTestWorker returns a worker with a journal in memory. It is not started.
func newTestWorker(t *testing.T, send senderFunc) (*Worker, journal.Journal, *observedEvents) {
	t.Helper()
	memory, events := journal.NewMemory(0), &observedEvents{}
	reader, err := memory.Attach(t.Context(), "d", nil)
	require.NoError(t, err)
	return NewWorker(oneWebhook("d"), reader, WorkerConfig{
		Sender: send, Observer: events, Log: slog.New(slog.DiscardHandler), Jitter: func() float64 { return 1 }, Concurrency: 4,
		Attach: func(ctx context.Context) (journal.Reader, error) { return memory.Attach(ctx, "d", nil) },
	}), memory, events
}

func appendCalls(t *testing.T, memory journal.Journal, ids ...string) {
	t.Helper()
	b := event.Batch{Source: "web", ReceivedAt: time.Now()}
	for _, id := range ids {
		b.Calls = append(b.Calls, tracking.Call{ID: id, Source: "web", Type: "track", ReceivedAt: time.Now(), Body: []byte(`{"type":"track","userId":"u","event":"E","timestamp":"2026-01-01T00:00:00.000Z"}`)})
	}
	require.NoError(t, memory.Append(t.Context(), b))
}

func TestWorkerStates(t *testing.T) {
	states := []workerState{workerRunning, workerPaused, workerDraining, workerStopped}
	for name, test := range map[string]struct {
		change func(w *Worker)
		to     [4]workerState // the new state for each entry of states
	}{
		"pause":  {func(w *Worker) { w.Update(tracking.Destination{Name: "d", Paused: true}, nil) }, [4]workerState{workerPaused, workerPaused, workerDraining, workerStopped}},
		"resume": {func(w *Worker) { w.Update(tracking.Destination{Name: "d"}, nil) }, [4]workerState{workerRunning, workerRunning, workerDraining, workerStopped}},
		"drain":  {func(w *Worker) { w.Drain() }, [4]workerState{workerDraining, workerDraining, workerDraining, workerStopped}},
		"cancel": {func(w *Worker) { w.Abort() }, [4]workerState{workerStopped, workerStopped, workerStopped, workerStopped}},
	} {
		t.Run(name, func(t *testing.T) {
			for i, from := range states {
				w, _, _ := newTestWorker(t, nil)
				w.change(from)
				test.change(w)
				assert.Equal(t, test.to[i], w.state, "from %d", from)
				assert.Equal(t, w.state == workerRunning, w.admitting.Err() == nil, "calls begin")
				assert.Equal(t, w.state <= workerPaused, w.leasing.Err() == nil, "run continues")
				assert.Equal(t, w.state != workerStopped, w.requests.parent.Err() == nil, "requests continue")
			}
		})
	}
}

// TestWorkerDelivers checks that a call is retried until its webhook accepts it, and that each
// attempt is observed.
func TestWorkerDelivers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var infos []Info
		w, memory, events := newTestWorker(t, func(ctx context.Context, r sender.Request) webhook.Attempt {
			info, _ := FromContext(ctx)
			infos = append(infos, info)
			a := webhook.Attempt{Number: r.Number, Status: http.StatusOK, Verdict: webhook.Success}
			if r.Number == 1 {
				a.Status, a.Verdict, a.Error = http.StatusServiceUnavailable, webhook.Temporary, "busy"
			}
			return a
		})
		w.Start()
		appendCalls(t, memory, "m")
		time.Sleep(time.Minute)
		w.Stop()
		assert.Equal(t, []Info{{Destination: "d", Source: "web"}, {Destination: "d", Source: "web"}}, infos)
		var observed []any
		for _, e := range events.events {
			switch e := e.(type) {
			case tracking.Attempt:
				observed = append(observed, e.Status)
			case tracking.Ended:
				observed = append(observed, e.State)
			}
		}
		assert.Equal(t, []any{http.StatusServiceUnavailable, tracking.StatePending, http.StatusOK, tracking.StateDelivered}, observed)
		ledgers, err := memory.Ledger(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 1, ledgers[0].Delivered)
	})
}

// TestWorkerStopCancelsRequests checks that the call of a canceled request stays pending and no
// result is observed.
func TestWorkerStopCancelsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, memory, events := newTestWorker(t, func(ctx context.Context, _ sender.Request) webhook.Attempt {
			<-ctx.Done()
			return webhook.Attempt{Verdict: webhook.Temporary, Error: ctx.Err().Error()}
		})
		w.Start()
		appendCalls(t, memory, "m")
		synctest.Wait()
		w.Drain()
		synctest.Wait()
		select {
		case <-w.done:
			assert.Fail(t, "a worker that is drained waits for its requests")
		default:
		}
		w.Stop()
		for _, e := range events.events {
			assert.IsType(t, tracking.Attempt{}, e)
		}
		ledgers, err := memory.Ledger(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 1, ledgers[0].Pending)
	})
}

// TestWorkerReopensItsQueue checks that a queue that the journal has closed is attached again.
func TestWorkerReopensItsQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		delivered := make(chan string, 1)
		w, memory, _ := newTestWorker(t, func(_ context.Context, r sender.Request) webhook.Attempt {
			delivered <- r.MessageID
			return webhook.Attempt{Verdict: webhook.Success}
		})
		tries := 0
		w.Attach = func(ctx context.Context) (journal.Reader, error) {
			switch tries++; tries {
			case 1:
				return nil, errors.New("not now")
			case 2:
				return nil, nil // the worker must try again
			}
			return memory.Attach(ctx, "d", nil)
		}
		before := w.Attachment().Since
		w.Start()
		time.Sleep(time.Hour)
		require.NoError(t, memory.Detach(t.Context(), "d"))
		time.Sleep(3 * journalRetry)
		synctest.Wait()
		assert.Equal(t, 3, tries)
		assert.Equal(t, time.Hour+3*journalRetry, w.Attachment().Since.Sub(before))
		appendCalls(t, memory, "m")
		assert.Equal(t, "m", <-delivered)
		w.Stop()
	})
}

// TestRetryAfterBeginsAtTheResponse checks that a call is retried when the requested pause ends, even
// if other calls of its entry waited for the end of the pause.
func TestRetryAfterBeginsAtTheResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, limited := time.Now(), make(chan time.Duration, 2) // attempts of the call a
		w, memory, _ := newTestWorker(t, func(_ context.Context, r sender.Request) webhook.Attempt {
			a := webhook.Attempt{URL: r.Endpoint.URL, Number: r.Number, Status: http.StatusOK, Verdict: webhook.Success}
			if r.MessageID != "a" {
				time.Sleep(time.Second)
				return a
			}
			limited <- time.Since(began)
			if r.Number == 1 {
				a.Status, a.Verdict, a.RetryAfter = http.StatusTooManyRequests, webhook.Temporary, time.Minute
			}
			return a
		})
		w.Start()
		defer w.Stop()
		appendCalls(t, memory, "a", "b", "c", "d", "e", "f", "g", "h")
		<-limited
		require.LessOrEqual(t, <-limited, 65*time.Second)
	})
}

// TestCallsFailWithoutAttemptOnlyAfterTheWindow checks that calls that wait for the end of a pause fail
// when their window has passed, and stay pending if the worker is paused or drained.
func TestCallsFailWithoutAttemptOnlyAfterTheWindow(t *testing.T) {
	for name, test := range map[string]struct {
		change func(w *Worker)
		failed bool
	}{
		"pause":  {pauseForMinute, false},
		"drain":  {func(w *Worker) { w.Drain() }, false},
		"window": {func(*Worker) { time.Sleep(webhook.Window + 2*lastAttemptGrace) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, memory, events := newTestWorker(t, func(context.Context, sender.Request) webhook.Attempt {
					t.Error("a call is attempted during a pause")
					return webhook.Attempt{Verdict: webhook.Success}
				})
				until := time.Now().Add(24 * time.Hour)
				w.PauseUntil(until)
				assert.Equal(t, until, w.Status().HeldUntil)
				w.Start()
				appendCalls(t, memory, "m", "n")
				synctest.Wait()
				test.change(w)
				synctest.Wait()
				w.Stop()
				ledgers, err := memory.Ledger(t.Context())
				require.NoError(t, err)
				if !test.failed {
					assert.EqualValues(t, 2, ledgers[0].Pending)
					assert.Empty(t, events.events)
					return
				}
				assert.EqualValues(t, 2, ledgers[0].Failed)
				require.Len(t, events.events, 2)
				ended := events.events[1].(tracking.Ended)
				assert.Equal(t, tracking.StateFailed, ended.State)
				assert.Equal(t, sender.WindowPassed+"it could not be attempted in that time", ended.Reason)
			})
		})
	}
}

// TestHangingDestinationLeasesFewEntries checks that most entries stay in the journal while the calls of
// their source hang, and that the journal receives them back after a stop.
func TestHangingDestinationLeasesFewEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, memory, _ := newTestWorker(t, func(ctx context.Context, _ sender.Request) webhook.Attempt {
			<-ctx.Done()
			return webhook.Attempt{Verdict: webhook.Temporary, Error: ctx.Err().Error()}
		})
		reader := &countingReader{Reader: w.reader}
		w.Update(oneWebhook("d"), reader)
		w.Start()
		for range 10 {
			appendCalls(t, memory, "m")
		}
		synctest.Wait()
		assert.EqualValues(t, minEntries, reader.leases.Load())
		w.Stop()
		ledgers, err := memory.Ledger(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 10, ledgers[0].Pending)
	})
}

// TestUnreachableDestination checks the status of a destination that accepts no connections, and that
// calls are leased only for probes.
func TestUnreachableDestination(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var up atomic.Bool
		w, memory, _ := newTestWorker(t, func(context.Context, sender.Request) webhook.Attempt {
			if up.Load() {
				return webhook.Attempt{Status: http.StatusOK, Verdict: webhook.Success}
			}
			return webhook.Attempt{NotConnected: true, Verdict: webhook.Temporary, Error: "connection refused"}
		})
		reader := &countingReader{Reader: w.reader}
		w.Update(oneWebhook("d"), reader)
		w.Start()
		defer w.Stop()
		assert.Equal(t, Status{}, w.Status())
		for range 100 {
			appendCalls(t, memory, "m")
		}
		time.Sleep(time.Minute)
		s := w.Status()
		assert.True(t, s.Down)
		assert.GreaterOrEqual(t, s.Failures, downAfter)
		assert.NotZero(t, s.ProbeAt)
		assert.LessOrEqual(t, reader.leases.Load(), int64(100), "one entry per second, and those at the beginning")
		up.Store(true)
		time.Sleep(time.Hour)
		assert.Equal(t, Status{}, w.Status())
	})
}

// A failingReader returns errors: first from Acquire, then from Next.
type failingReader struct {
	journal.Reader
	acquires, leases int // number of remaining errors
}

func (r *failingReader) Acquire(ctx context.Context) (context.Context, func(), error) {
	if r.acquires--; r.acquires >= 0 {
		return nil, nil, errors.New("not acquired")
	}
	return r.Reader.Acquire(ctx)
}

func (r *failingReader) Next(ctx context.Context, want journal.Want) (journal.Lease, error) {
	if r.leases--; r.leases >= 0 {
		return nil, errors.New("no lease")
	}
	return r.Reader.Next(ctx, want)
}

// TestWorkerRetriesAfterJournalErrors checks that no call of an ordered destination is sent before the
// worker has acquired the destination, and that errors are retried once per journalRetry.
func TestWorkerRetriesAfterJournalErrors(t *testing.T) {
	for _, acquires := range []int{0, 2} {
		synctest.Test(t, func(t *testing.T) {
			began, sent := time.Now(), make(chan time.Duration, 1)
			w, memory, _ := newTestWorker(t, func(context.Context, sender.Request) webhook.Attempt {
				sent <- time.Since(began)
				return webhook.Attempt{Status: http.StatusOK, Verdict: webhook.Success}
			})
			d := oneWebhook("d")
			if acquires > 0 {
				d.Order = tracking.OrderUser
			}
			w.Aliases = &aliasMap{pairs: map[[2]event.Key]bool{}}
			w.Update(d, &failingReader{Reader: w.reader, acquires: acquires, leases: 3})
			appendCalls(t, memory, "m")
			w.Start()
			defer w.Stop()
			assert.Equal(t, time.Duration(acquires+3)*journalRetry, <-sent)
		})
	}
}

// TestEachWebhookReceivesCalls checks that a call is sent to all webhooks, and is retried only at
// webhooks that have not refused it.
func TestEachWebhookReceivesCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		sent := map[string]int{}
		w, memory, _ := newTestWorker(t, func(_ context.Context, r sender.Request) webhook.Attempt {
			mu.Lock()
			defer mu.Unlock()
			sent[r.Endpoint.URL]++
			switch r.Endpoint.URL {
			case "http://h/1":
				return webhook.Attempt{Status: http.StatusBadRequest, Verdict: webhook.Permanent}
			case "http://h/2":
				return webhook.Attempt{Status: http.StatusServiceUnavailable, Verdict: webhook.Temporary}
			}
			if sent[r.Endpoint.URL] == 1 {
				return webhook.Attempt{Status: http.StatusServiceUnavailable, Verdict: webhook.Temporary}
			}
			return webhook.Attempt{Status: http.StatusOK, Verdict: webhook.Success}
		})
		d := oneWebhook("d")
		d.Webhooks = append(d.Webhooks, webhook.Endpoint{URL: "http://h/2"}, webhook.Endpoint{URL: "http://h/3"})
		w.Update(d, nil)
		w.Start()
		appendCalls(t, memory, "m")
		time.Sleep(time.Hour)
		w.Stop()
		assert.Equal(t, map[string]int{"http://h/1": 1, "http://h/2": 2, "http://h/3": 2}, sent)
		ledgers, err := memory.Ledger(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 1, ledgers[0].Delivered)
	})
}

// A sinceReader is a reader that calls a function when Update reads its Since.
type sinceReader struct {
	journal.Reader
	since func()
}

func (r *sinceReader) Since() time.Time {
	r.since()
	return r.Reader.Since()
}

// TestUpdateThatPausesSendsNothing checks that no call is sent with the settings of an update that
// also pauses the destination. Another URL ends the pause that the waiting call waits for.
func TestUpdateThatPausesSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := make(chan string, 1)
		w, memory, _ := newTestWorker(t, func(_ context.Context, r sender.Request) webhook.Attempt {
			sent <- r.Endpoint.URL
			return webhook.Attempt{Status: http.StatusOK, Verdict: webhook.Success}
		})
		w.PauseUntil(time.Now().Add(time.Hour))
		w.Start()
		appendCalls(t, memory, "m")
		synctest.Wait()
		d := oneWebhook("d")
		d.Webhooks[0].URL, d.Paused = "http://h/2", true
		var url string
		w.Update(d, &sinceReader{w.reader, func() {
			select {
			case url = <-sent:
			case <-w.admitting.Done():
			}
		}})
		assert.Empty(t, url)
		w.Stop()
		assert.Empty(t, sent)
	})
}
