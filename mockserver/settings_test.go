package mockserver_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

func to(url string) webhook.Settings {
	return webhook.Settings{Webhooks: []webhook.Endpoint{{URL: url}}}
}

// until waits for a condition that the history's changes bring about.
func until(t *testing.T, srv *mockserver.Server, what string, holds func() bool) {
	t.Helper()
	ctx := within(t)
	for {
		changed := srv.Engine().History().Changed()
		if holds() {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

func TestReplicasShareWhatIsMadeAtRunTime(t *testing.T) {
	store := state.NewMemory()
	defined := []tracking.Source{{Name: "site", WriteKey: "site-key"}}
	one := mockserver.RunEngine(t, engine.Config{Store: store, Sources: defined})
	two := mockserver.RunEngine(t, engine.Config{Store: store, Sources: defined})
	var wg sync.WaitGroup
	for i := range 6 { // both change the same store, at the same time
		for n, srv := range []*mockserver.Server{one, two} {
			wg.Go(func() {
				name := fmt.Sprintf("source-%d-%d", n, i)
				assert.NoError(t, srv.Engine().AddSource(t.Context(), tracking.Source{Name: name, WriteKey: name}))
			})
		}
	}
	wg.Wait()
	require.NoError(t, one.Engine().AddDestination(t.Context(), tracking.Destination{Name: "hook", Settings: to("http://127.0.0.1:1")}))
	require.NoError(t, one.Engine().Pause(t.Context(), "hook"))
	ctx := within(t)
	for _, srv := range []*mockserver.Server{one, two} {
		for len(srv.Engine().Settings().Sources) != 13 || len(srv.Engine().Status()) != 1 || !srv.Engine().Status()[0].Paused {
			require.NoError(t, ctx.Err(), "%+v", srv.Engine().Settings())
			time.Sleep(time.Millisecond) // another process's change is no event of this one
		}
	}
	assert.ErrorIs(t, two.Engine().AddSource(t.Context(), tracking.Source{Name: "source-0-0", WriteKey: "x"}), state.ErrExists)
	assert.ErrorIs(t, two.Engine().RemoveSource(t.Context(), "site"), state.ErrReadOnly)
	assert.ErrorIs(t, two.Engine().Resume(t.Context(), "none"), state.ErrUnknown)

	three := mockserver.RunEngine(t, engine.Config{Store: store, Sources: append(defined, tracking.Source{Name: "other", WriteKey: "source-0-0"})})
	assert.Len(t, three.Engine().Settings().Sources, 13, "where two have one write key, the configuration's counts")
	assert.True(t, three.Engine().Status()[0].Paused, "it stays paused across restarts")
}

// brokenStore fails to store.
type brokenStore struct{ state.Store }

func (brokenStore) Update(context.Context, string, []byte, uint64) (uint64, error) {
	return 0, errors.New("no disk")
}

func TestSettingsThatCannotBeStoredAreNotApplied(t *testing.T) {
	srv := mockserver.RunEngine(t, engine.Config{Store: brokenStore{state.NewMemory()}})
	err := srv.Engine().AddSource(t.Context(), tracking.Source{Name: "a", WriteKey: "k"})
	assert.EqualError(t, err, "mockserver: the settings cannot be stored: mockserver: state settings: no disk")
	assert.Empty(t, srv.Engine().Settings().Sources)
}

func TestShutdownEndsWhatIsUnderWayAndKeepsTheRest(t *testing.T) {
	arrived, answer := make(chan struct{}, 100), make(chan struct{})
	rec := newReceiver(t, func(int, http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-answer
	})
	memory := journal.NewMemory(0)
	srv := mockserver.RunEngine(t, engine.Config{
		Journal: keptJournal{memory}, Concurrency: 5,
		Destinations: []tracking.Destination{{Name: "hook", Settings: to(rec.URL)}},
	})
	post(t, srv.URL+"/v1/batch", "key", track("m", 20))
	for range 5 {
		<-arrived
	}
	require.NoError(t, srv.Ready(t.Context()))
	ended := make(chan error)
	go func() { ended <- srv.Engine().Shutdown(within(t)) }()
	for srv.Ready(t.Context()) == nil {
		time.Sleep(time.Millisecond) // draining tells nobody
	}
	close(answer)
	require.NoError(t, <-ended)
	ledgers, err := memory.Ledger(t.Context())
	require.NoError(t, err)
	assert.Equal(t, int64(5), ledgers[0].Delivered)
	assert.Equal(t, int64(15), ledgers[0].Pending)
	assert.True(t, ledgers[0].Holds())
	assert.ErrorIs(t, srv.Engine().Apply(t.Context(), settings.Settings{}), state.ErrClosed)
}

// keptJournal outlives its collector.
type keptJournal struct{ journal.Journal }

func (keptJournal) Close() error { return nil }

func TestShutdownBreaksOffWhatTakesTooLong(t *testing.T) {
	arrived := make(chan struct{}, 1)
	rec := newReceiver(t, func(_ int, _ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-r.Context().Done()
	})
	srv := mockserver.RunT(t, mockserver.Config{Destinations: []tracking.Destination{{Name: "hook", Settings: to(rec.URL)}}})
	post(t, srv.URL+"/v1/batch", "key", track("m", 1))
	<-arrived
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, srv.Engine().Shutdown(ctx), context.Canceled)
}

func TestReadyTellsTheTruth(t *testing.T) {
	memory := journal.NewMemory(100)
	srv := mockserver.RunEngine(t, engine.Config{Journal: memory})
	get := func(path string) int {
		res, err := http.Get(srv.URL + path)
		require.NoError(t, err)
		res.Body.Close()
		return res.StatusCode
	}
	assert.Equal(t, 200, get("/ready"))
	require.NoError(t, memory.Close())
	assert.Equal(t, 503, get("/ready"))
	assert.Equal(t, 200, get("/health"), "the process lives")
	assert.ErrorIs(t, srv.Ready(t.Context()), journal.ErrClosed)
}

func TestADrainedCollectorTakesNoSettings(t *testing.T) {
	store := state.NewMemory()
	srv := mockserver.RunEngine(t, engine.Config{Store: store})
	srv.Engine().Drain()
	assert.ErrorIs(t, srv.Engine().AddSource(t.Context(), tracking.Source{Name: "s", WriteKey: "k"}), state.ErrClosed)
	_, _, err := store.Get(t.Context(), "settings")
	assert.ErrorIs(t, err, state.ErrNotFound, "what is refused is not stored either")
}

// TestReplayLeavesOutWhatAnEarlierDestinationHad: one that is removed and made again
// has an account of its own.
func TestReplayLeavesOutWhatAnEarlierDestinationHad(t *testing.T) {
	rec := newReceiver(t, nil)
	srv := mockserver.RunT(t)
	require.NoError(t, srv.Engine().AddDestination(t.Context(), hook("d", rec.URL)))
	post(t, srv.URL+"/v1/batch", "key", track("before", 3))
	delivered(t, srv, "d", 3)
	require.NoError(t, srv.Engine().RemoveDestination(t.Context(), "d"))
	require.NoError(t, srv.Engine().AddDestination(t.Context(), hook("d", rec.URL)))
	post(t, srv.URL+"/v1/batch", "key", track("after", 2))
	delivered(t, srv, "d", 5)

	n, err := srv.Engine().Replay(t.Context(), "d", engine.Selection{State: tracking.StateDelivered})
	require.NoError(t, err)
	assert.Equal(t, 2, n)
	assert.EqualValues(t, 2, account(t, srv).Accepted)
}
