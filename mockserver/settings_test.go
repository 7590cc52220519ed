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
		changed := srv.History().Changed()
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
	store := mockserver.NewMemoryState()
	defined := []mockserver.Source{{Name: "site", WriteKey: "site-key"}}
	one := mockserver.RunT(t, mockserver.Config{Store: store, Sources: defined})
	two := mockserver.RunT(t, mockserver.Config{Store: store, Sources: defined})
	var wg sync.WaitGroup
	for i := range 6 { // both change the same store, at the same time
		for n, srv := range []*mockserver.Server{one, two} {
			wg.Go(func() {
				name := fmt.Sprintf("source-%d-%d", n, i)
				assert.NoError(t, srv.AddSource(t.Context(), mockserver.Source{Name: name, WriteKey: name}))
			})
		}
	}
	wg.Wait()
	require.NoError(t, one.AddDestination(t.Context(), mockserver.Destination{Name: "hook", Settings: to("http://127.0.0.1:1")}))
	require.NoError(t, one.Pause(t.Context(), "hook"))
	ctx := within(t)
	for _, srv := range []*mockserver.Server{one, two} {
		for len(srv.Settings().Sources) != 13 || len(srv.Status()) != 1 || !srv.Status()[0].Paused {
			require.NoError(t, ctx.Err(), "%+v", srv.Settings())
			time.Sleep(time.Millisecond) // another process's change is no event of this one
		}
	}
	assert.ErrorIs(t, two.AddSource(t.Context(), mockserver.Source{Name: "source-0-0", WriteKey: "x"}), mockserver.ErrExists)
	assert.ErrorIs(t, two.RemoveSource(t.Context(), "site"), mockserver.ErrReadOnly)
	assert.ErrorIs(t, two.Resume(t.Context(), "none"), mockserver.ErrUnknown)

	three := mockserver.RunT(t, mockserver.Config{Store: store, Sources: append(defined, mockserver.Source{Name: "other", WriteKey: "source-0-0"})})
	assert.Len(t, three.Settings().Sources, 13, "where two have one write key, the configuration's counts")
	assert.True(t, three.Status()[0].Paused, "it stays paused across restarts")
}

// brokenStore fails to store.
type brokenStore struct{ mockserver.StateStore }

func (brokenStore) Update(context.Context, string, []byte, uint64) (uint64, error) {
	return 0, errors.New("no disk")
}

func TestSettingsThatCannotBeStoredAreNotApplied(t *testing.T) {
	srv := mockserver.RunT(t, mockserver.Config{Store: brokenStore{mockserver.NewMemoryState()}})
	err := srv.AddSource(t.Context(), mockserver.Source{Name: "a", WriteKey: "k"})
	assert.EqualError(t, err, "mockserver: the settings cannot be stored: no disk")
	assert.Empty(t, srv.Settings().Sources)
}

func TestSettingsReportEachProblemWithItsField(t *testing.T) {
	err := mockserver.Settings{
		Sources: []mockserver.Source{{Name: "a", WriteKey: "k"}, {Name: "a", WriteKey: "k", CallsPerSecond: -1}, {}},
		Destinations: []mockserver.Destination{
			{Name: "d", Settings: to("http://127.0.0.1:1")},
			{Name: "d", Settings: to("example.com")},
			{Settings: webhook.Settings{AliasFields: "snake"}},
		},
	}.Validate()
	assert.EqualError(t, err, `sources[1].name: is "a" again: give each source a name of its own
sources[1].writeKey: is that of source "a" too: give each source a write key of its own
sources[1].callsPerSecond: is -1: use a number above 0, or leave it out
sources[2].name: is empty: give the source a name
sources[2].writeKey: is empty: give source "" a write key
destinations[1].name: is "d" again: give each destination a name of its own
destinations[1].webhooks[0].url: has the protocol "": start it with https:// or http://
destinations[2].name: is empty: give the destination a name
destinations[2].webhooks: is empty: give at least one URL
destinations[2].aliasFields: is "snake": use "spaced" or "camelCase"`)
}

func TestSourcesAreHeldToTheirRate(t *testing.T) {
	clock := &stoppedClock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	srv := mockserver.RunT(t, mockserver.Config{Clock: clock, Limits: mockserver.Limits{CallsPerSecond: 50}, Sources: []mockserver.Source{
		{Name: "slow", WriteKey: "slow-key", CallsPerSecond: 10}, {Name: "usual", WriteKey: "usual-key"},
	}})
	send := func(key, id string, n int) (status int, retryAfter string, message string) {
		res, answer := postFull(t, srv.URL+"/v1/batch", key, track(id, n))
		message, _ = answer["message"].(string)
		return res.StatusCode, res.Header.Get("Retry-After"), message
	}
	status, _, _ := send("slow-key", "a", 40)
	assert.Equal(t, 200, status, "a batch of more than a second's calls passes")
	status, after, message := send("slow-key", "b", 1)
	assert.Equal(t, http.StatusTooManyRequests, status)
	assert.Equal(t, "4", after, "30 calls too many, and one more, at 10 a second")
	assert.Equal(t, `source "slow" sends more than its 10 calls a second; send again in 4s`, message)
	status, _, _ = send("usual-key", "c", 50)
	assert.Equal(t, 200, status, "another source is not held up")
	status, after, _ = send("usual-key", "d", 1)
	assert.Equal(t, 429, status)
	assert.Equal(t, "1", after)

	clock.advance(4 * time.Second)
	status, _, _ = send("slow-key", "b", 1)
	assert.Equal(t, 200, status)
	assert.Len(t, srv.Calls(), 91)
	assert.Len(t, srv.History().Refusals(), 2)
}

func TestWhatIsSentWithoutARateDoesNotCountLater(t *testing.T) {
	srv := mockserver.RunT(t, mockserver.Config{Clock: &stoppedClock{now: newYear}})
	limit := func(n int) {
		require.NoError(t, srv.Apply(t.Context(), mockserver.Settings{Sources: []mockserver.Source{{Name: "s", WriteKey: "key", CallsPerSecond: n}}}))
	}
	for i, n := range []int{10, 0, 10} {
		limit(n)
		status, _ := post(t, srv.URL+"/v1/batch", "key", track(fmt.Sprint(i), 5))
		assert.Equal(t, http.StatusOK, status)
		if n == 0 {
			status, _ = post(t, srv.URL+"/v1/batch", "key", track("many", 2_000))
			assert.Equal(t, http.StatusOK, status)
		}
	}
}

// stoppedClock moves when it is told to.
type stoppedClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *stoppedClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *stoppedClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func (c *stoppedClock) After(time.Duration) (<-chan time.Time, func()) { return nil, func() {} }

func TestShutdownEndsWhatIsUnderWayAndKeepsTheRest(t *testing.T) {
	arrived, answer := make(chan struct{}, 100), make(chan struct{})
	rec := newReceiver(t, func(int, http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-answer
	})
	journal := mockserver.NewMemoryJournal(0)
	srv := mockserver.RunT(t, mockserver.Config{
		Journal: keptJournal{journal}, Concurrency: 5,
		Destinations: []mockserver.Destination{{Name: "hook", Settings: to(rec.URL)}},
	})
	post(t, srv.URL+"/v1/batch", "key", track("m", 20))
	for range 5 {
		<-arrived
	}
	require.NoError(t, srv.Ready(t.Context()))
	ended := make(chan error)
	go func() { ended <- srv.Shutdown(within(t)) }()
	for srv.Ready(t.Context()) == nil {
		time.Sleep(time.Millisecond) // draining tells nobody
	}
	close(answer)
	require.NoError(t, <-ended)
	ledgers, err := journal.Ledger(t.Context())
	require.NoError(t, err)
	assert.Equal(t, int64(5), ledgers[0].Delivered)
	assert.Equal(t, int64(15), ledgers[0].Pending)
	assert.True(t, ledgers[0].Holds())
	assert.ErrorIs(t, srv.Apply(t.Context(), mockserver.Settings{}), mockserver.ErrClosed)
}

// keptJournal outlives its collector.
type keptJournal struct{ mockserver.Journal }

func (keptJournal) Close() error { return nil }

func TestShutdownBreaksOffWhatTakesTooLong(t *testing.T) {
	arrived := make(chan struct{}, 1)
	rec := newReceiver(t, func(_ int, _ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-r.Context().Done()
	})
	srv := mockserver.RunT(t, mockserver.Config{Destinations: []mockserver.Destination{{Name: "hook", Settings: to(rec.URL)}}})
	post(t, srv.URL+"/v1/batch", "key", track("m", 1))
	<-arrived
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, srv.Shutdown(ctx), context.Canceled)
}

func TestReadyTellsTheTruth(t *testing.T) {
	journal := mockserver.NewMemoryJournal(100)
	srv := mockserver.RunT(t, mockserver.Config{Journal: journal})
	get := func(path string) int {
		res, err := http.Get(srv.URL + path)
		require.NoError(t, err)
		res.Body.Close()
		return res.StatusCode
	}
	assert.Equal(t, 200, get("/ready"))
	require.NoError(t, journal.Close())
	assert.Equal(t, 503, get("/ready"))
	assert.Equal(t, 200, get("/health"), "the process lives")
	assert.ErrorIs(t, srv.Ready(t.Context()), mockserver.ErrJournalClosed)
}

func TestRepeatedPauseAndResumeLosesNothing(t *testing.T) {
	rec := newReceiver(t, nil)
	srv := mockserver.RunT(t, mockserver.Config{Destinations: []mockserver.Destination{{Name: "hook", Settings: to(rec.URL)}}})
	for i := range 10 {
		require.NoError(t, srv.Pause(t.Context(), "hook"))
		post(t, srv.URL+"/v1/batch", "key", track(fmt.Sprint(i), 5))
		require.NoError(t, srv.Resume(t.Context(), "hook"))
	}
	delivered(t, srv, "hook", 50)
	until(t, srv, "all were delivered once", func() bool { bodies, _ := rec.got(); return len(bodies) == 50 })
}

func TestADrainedCollectorTakesNoSettings(t *testing.T) {
	store := mockserver.NewMemoryState()
	srv := mockserver.RunT(t, mockserver.Config{Store: store})
	srv.Drain()
	assert.ErrorIs(t, srv.AddSource(t.Context(), mockserver.Source{Name: "s", WriteKey: "k"}), mockserver.ErrClosed)
	_, _, err := store.Get(t.Context(), "settings")
	assert.ErrorIs(t, err, mockserver.ErrNoState, "what is refused is not stored either")
}

// TestReplayLeavesOutWhatAnEarlierDestinationHad: one that is removed and made again
// has an account of its own.
func TestReplayLeavesOutWhatAnEarlierDestinationHad(t *testing.T) {
	rec := newReceiver(t, nil)
	srv := mockserver.RunT(t)
	require.NoError(t, srv.AddDestination(t.Context(), hook("d", rec.URL)))
	post(t, srv.URL+"/v1/batch", "key", track("before", 3))
	delivered(t, srv, "d", 3)
	require.NoError(t, srv.RemoveDestination(t.Context(), "d"))
	require.NoError(t, srv.AddDestination(t.Context(), hook("d", rec.URL)))
	post(t, srv.URL+"/v1/batch", "key", track("after", 2))
	delivered(t, srv, "d", 5)

	n, err := srv.Replay(t.Context(), "d", mockserver.Selection{State: mockserver.StateDelivered})
	require.NoError(t, err)
	assert.Equal(t, 2, n)
	assert.EqualValues(t, 2, account(t, srv).Accepted)
}
