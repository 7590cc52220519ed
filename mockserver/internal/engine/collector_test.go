package engine_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// newCollector starts a collector with AnyWriteKey for the duration of the test.
func newCollector(t *testing.T, config engine.Config) *engine.Collector {
	t.Helper()
	config.AnyWriteKey = true
	c, err := engine.New(config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// ask sends a request and returns the status.
func ask(c *engine.Collector, method, path, body string) int {
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	req.SetBasicAuth("key", "")
	res := httptest.NewRecorder()
	c.ServeHTTP(res, req)
	return res.Code
}

// send sends n calls.
func send(t *testing.T, c *engine.Collector, prefix string, n int) {
	t.Helper()
	var calls []string
	for i := range n {
		calls = append(calls, fmt.Sprintf(`{"type":"track","event":"E","userId":"u","messageId":"%s-%d"}`, prefix, i))
	}
	require.Equal(t, http.StatusOK, ask(c, http.MethodPost, "/v1/batch", `{"batch":[`+strings.Join(calls, ",")+`]}`))
}

type observerFunc func(event.Event)

func (f observerFunc) Observe(e event.Event) { f(e) }

// When a call is in the History, all other observers have observed it.
func TestHistoryObservesLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c *engine.Collector
		var ahead []string
		observed := 0
		c = newCollector(t, engine.Config{
			Destinations:  []tracking.Destination{hook("crm")},
			WrapTransport: answering(func(string) (int, string) { return 200, "" }),
			Observers: []event.Observer{observerFunc(func(e event.Event) {
				record, knows := c.History().Find("key", "m-0")
				switch e.(type) {
				case event.Accepted:
				case tracking.Attempt:
					knows = len(record.Attempts) > 0
				case tracking.Ended:
					knows = len(record.Ends) > 0
				}
				if observed++; knows {
					ahead = append(ahead, fmt.Sprintf("%T", e))
				}
			})},
		})
		send(t, c, "m", 1)
		synctest.Wait()
		assert.Equal(t, 3, observed)
		assert.Empty(t, ahead, "the History was notified first")
	})
}

// hook returns a destination with one webhook.
func hook(name string) tracking.Destination {
	return tracking.Destination{Name: name, Settings: webhook.Settings{Webhooks: []webhook.Endpoint{{URL: "http://h/"}}}}
}

// A receiver is the transport of a webhook that calls a function for each request.
type receiver func(r *http.Request) error

func (answer receiver) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := answer(r); err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

func TestCollectorsShareStoredSettings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := state.NewMemory()
		defined := []tracking.Source{{Name: "site", WriteKey: "site-key"}}
		one := newCollector(t, engine.Config{Store: store, Sources: defined})
		two := newCollector(t, engine.Config{Store: store, Sources: defined})
		var changes sync.WaitGroup
		for i := range 6 { // concurrent changes in one store
			for n, c := range []*engine.Collector{one, two} {
				changes.Go(func() {
					name := fmt.Sprintf("source-%d-%d", n, i)
					assert.NoError(t, c.AddSource(t.Context(), tracking.Source{Name: name, WriteKey: name}))
				})
			}
		}
		changes.Wait()
		require.NoError(t, one.AddDestination(t.Context(), hook("hook")))
		require.NoError(t, one.Pause(t.Context(), "hook"))
		synctest.Wait()
		for _, c := range []*engine.Collector{one, two} {
			assert.Len(t, c.Settings().Sources, 13)
			require.Len(t, c.Status(), 1)
			assert.True(t, c.Status()[0].Paused)
		}
		assert.ErrorIs(t, two.AddSource(t.Context(), tracking.Source{Name: "source-0-0", WriteKey: "x"}), state.ErrExists)
		assert.ErrorIs(t, two.RemoveSource(t.Context(), "site"), state.ErrReadOnly)
		assert.ErrorIs(t, two.Resume(t.Context(), "none"), state.ErrUnknown)

		three := newCollector(t, engine.Config{Store: store, Sources: append(defined, tracking.Source{Name: "other", WriteKey: "source-0-0"})})
		assert.Len(t, three.Settings().Sources, 13, "the configuration takes precedence for a write key")
		assert.True(t, three.Status()[0].Paused, "it stays paused across restarts")
	})
}

// A call that another collector stores while New reads the stored calls is a duplicate.
func TestCallStoredDuringStartIsADuplicate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stored := func(string, string) {}
		c := newCollector(t, engine.Config{
			OnStored: func(f func(source, messageID string)) { stored = f },
			Seen: func(context.Context, time.Time, int, func(string, iter.Seq[string]) bool) error {
				go stored("key", "m-1")
				return nil
			},
		})
		synctest.Wait()
		send(t, c, "m", 3)
		assert.Len(t, c.History().Records(nil), 2)
	})
}

// A brokenStore fails all writes.
type brokenStore struct{ state.Store }

func (brokenStore) Update(context.Context, string, []byte, uint64) (uint64, error) {
	return 0, errors.New("no disk")
}

// A readStore calls a function before each read.
type readStore struct {
	state.Store
	reading func()
}

func (s *readStore) Get(ctx context.Context, key string) ([]byte, uint64, error) {
	if s.reading != nil {
		s.reading()
	}
	return s.Store.Get(ctx, key)
}

// A call may arrive while the removal of its destination waits for another change.
func TestRemoveDestinationSeesConcurrentCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &readStore{Store: state.NewMemory()}
		c := newCollector(t, engine.Config{Store: store})
		require.NoError(t, c.AddDestination(t.Context(), hook("crm")))
		require.NoError(t, c.Pause(t.Context(), "crm"))
		synctest.Wait() // until RemoveDestination has read the stored settings
		store.reading = func() {
			store.reading = nil
			send(t, c, "m", 1)
		}
		var pending *engine.PendingCallsError
		require.ErrorAs(t, c.RemoveDestination(t.Context(), "crm", false), &pending)
		assert.EqualValues(t, 1, pending.Calls)
		require.NoError(t, c.RemoveDestination(t.Context(), "crm", true))
		assert.ErrorIs(t, c.RemoveDestination(t.Context(), "crm", false), state.ErrUnknown)
	})
}

func TestUnstoredSettingsAreNotApplied(t *testing.T) {
	c := newCollector(t, engine.Config{Store: brokenStore{state.NewMemory()}})
	err := c.AddSource(t.Context(), tracking.Source{Name: "a", WriteKey: "k"})
	assert.EqualError(t, err, "mockserver: could not store the settings: mockserver: state settings: no disk")
	assert.Empty(t, c.Settings().Sources)
}

func TestDrainedCollectorRefusesSettings(t *testing.T) {
	store := state.NewMemory()
	c := newCollector(t, engine.Config{Store: store})
	c.Drain()
	assert.ErrorIs(t, c.AddSource(t.Context(), tracking.Source{Name: "s", WriteKey: "k"}), state.ErrClosed)
	_, _, err := store.Get(t.Context(), "settings")
	assert.ErrorIs(t, err, state.ErrNotFound, "refused settings are not stored")
}

// A keptJournal stays open when its collector closes.
type keptJournal struct{ journal.Journal }

func (keptJournal) Close() error { return nil }

func TestShutdownWaitsForDeliveriesInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer, memory := make(chan struct{}), journal.NewMemory(0)
		c := newCollector(t, engine.Config{
			Journal: keptJournal{memory}, Concurrency: 5, Destinations: []tracking.Destination{hook("hook")},
			Sender: webhook.SenderConfig{Transport: receiver(func(*http.Request) error { <-answer; return nil })},
		})
		send(t, c, "m", 20)
		synctest.Wait()
		require.NoError(t, c.Ready(t.Context()))
		ended := make(chan error)
		go func() { ended <- c.Shutdown(t.Context()) }()
		synctest.Wait()
		assert.ErrorIs(t, c.Ready(t.Context()), state.ErrClosed)
		close(answer)
		require.NoError(t, <-ended)
		ledgers, err := memory.Ledger(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 5, ledgers[0].Delivered)
		assert.EqualValues(t, 15, ledgers[0].Pending)
		assert.True(t, ledgers[0].Holds())
		assert.ErrorIs(t, c.Apply(t.Context(), settings.Settings{}), state.ErrClosed)
	})
}

func TestShutdownCancelsSlowDeliveries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCollector(t, engine.Config{
			Destinations: []tracking.Destination{hook("hook")},
			Sender:       webhook.SenderConfig{Transport: receiver(func(r *http.Request) error { <-r.Context().Done(); return r.Context().Err() })},
		})
		send(t, c, "m", 1)
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		assert.ErrorIs(t, c.Shutdown(ctx), context.Canceled)
	})
}

func TestReadyFollowsTheJournal(t *testing.T) {
	memory := journal.NewMemory(100)
	c := newCollector(t, engine.Config{Journal: memory})
	assert.Equal(t, http.StatusOK, ask(c, http.MethodGet, "/ready", ""))
	require.NoError(t, memory.Close())
	assert.Equal(t, http.StatusServiceUnavailable, ask(c, http.MethodGet, "/ready", ""))
	assert.Equal(t, http.StatusOK, ask(c, http.MethodGet, "/health", ""), "the process is running")
	assert.ErrorIs(t, c.Ready(t.Context()), journal.ErrClosed)
}

// A destination that is created again after its removal has a new ledger.
func TestReplaySkipsCallsOfAnEarlierDestination(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCollector(t, engine.Config{Sender: webhook.SenderConfig{Transport: receiver(func(*http.Request) error { return nil })}})
		require.NoError(t, c.AddDestination(t.Context(), hook("d")))
		send(t, c, "before", 3)
		synctest.Wait()
		time.Sleep(time.Second)
		require.NoError(t, c.RemoveDestination(t.Context(), "d", true))
		require.NoError(t, c.AddDestination(t.Context(), hook("d")))
		send(t, c, "after", 2)
		synctest.Wait()
		n, err := c.Replay(t.Context(), "d", engine.Selection{State: tracking.StateDelivered})
		require.NoError(t, err)
		assert.Equal(t, 2, n)
		ledgers, err := c.Ledger(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 2, ledgers[0].Accepted)
	})
}
