package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
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
)

// answering returns a transport wrapper with a receiver that responds depending on the messageId.
func answering(answer func(id string) (status int, body string)) func(http.RoundTripper) http.RoundTripper {
	return func(http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			status, body := answer(r.Header.Get("X-Message-Id"))
			return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body))}, nil
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestReplayOfACauseReportsResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mended atomic.Bool
		c := newCollector(t, engine.Config{
			Destinations: []tracking.Destination{hook("crm")},
			WrapTransport: answering(func(id string) (int, string) {
				switch {
				case strings.HasPrefix(id, "other"):
					return 422, "no such plan"
				case !mended.Load():
					return 400, "order " + id + " unknown"
				case id == "m-0" || id == "m-1":
					return 404, ""
				case id == "m-2":
					return 503, "later"
				}
				return 200, ""
			}),
		})
		send(t, c, "old", 3)
		time.Sleep(2 * time.Hour)
		send(t, c, "m", 150)
		send(t, c, "other", 7)
		time.Sleep(time.Second)

		report := c.Problems()
		require.Len(t, report.Failed, 2)
		group := report.Failed[0]
		assert.Equal(t, "responded with 400 (Bad Request): order … unknown", group.Cause)
		assert.EqualValues(t, 150, group.Calls.Hour)
		assert.EqualValues(t, 153, group.Calls.Day)

		now := time.Now()
		sel := engine.Selection{Cause: group.Cause, FailedSince: now.Add(-time.Hour), FailedUntil: now, DryRun: true}
		n, err := c.Replay(t.Context(), "crm", sel)
		require.NoError(t, err)
		require.Equal(t, 150, n, "calls of the last hour with this cause")

		mended.Store(true)
		id, err := c.StartReplay("crm", sel, n)
		require.NoError(t, err)
		time.Sleep(10 * time.Millisecond)
		run := c.ReplayRuns()[0]
		assert.Equal(t, id, run.ID)
		assert.Equal(t, engine.ReplayRun{
			ID: id, Destination: "crm", Cause: group.Cause, StartedAt: run.StartedAt, EndedAt: run.EndedAt,
			Expected: 150, Replayed: 150, Followed: 150, Counts: event.Counts{Delivered: 147, Failed: 2, Pending: 1},
		}, run)
		assert.False(t, run.Running() || run.Settled())
		l, err := c.Ledger(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 147, l[0].Delivered)
		assert.EqualValues(t, 3+7+2, l[0].Failed, "older calls, calls with another cause, and calls that failed again")

		time.Sleep(5 * time.Hour)
		run = c.ReplayRuns()[0]
		assert.True(t, run.Settled())
		assert.Equal(t, 3, run.Failed, "calls failed again after four hours")

		n, err = c.Replay(t.Context(), "crm", engine.Selection{State: tracking.StateDelivered, FailedUntil: time.Now(), DryRun: true})
		require.NoError(t, err)
		assert.Zero(t, n, "delivered calls have no failure time")
	})
}

// In this test, the journal fails after two calls.
func TestPartialReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := journal.NewMemory(0)
		c := newCollector(t, engine.Config{
			Journal:       &halfReplay{Journal: memory, done: 2},
			Destinations:  []tracking.Destination{hook("crm")},
			WrapTransport: answering(func(string) (int, string) { return 400, "" }),
		})
		send(t, c, "m", 5)
		time.Sleep(time.Second)
		require.NoError(t, c.Pause(t.Context(), "crm"))
		_, err := c.StartReplay("crm", engine.Selection{}, 5)
		require.NoError(t, err)
		synctest.Wait()
		run := c.ReplayRuns()[0]
		assert.Equal(t, []int{2, 2, 2}, []int{run.Replayed, run.Followed, run.Pending})
		assert.Equal(t, "mockserver: could not replay calls: the disk is full", run.Problem)
		states := map[tracking.State]int{}
		for r := range c.History().Backward(0) {
			last, _ := r.Last("crm")
			states[last.State]++
		}
		assert.Equal(t, map[tracking.State]int{tracking.StatePending: 2, tracking.StateFailed: 3}, states)

		n, err := c.Replay(t.Context(), "crm", engine.Selection{})
		require.ErrorContains(t, err, "the disk is full")
		assert.Equal(t, 2, n)
	})
}

// A halfReplay is a journal that replays only the first calls.
type halfReplay struct {
	journal.Journal
	done int
}

func (j *halfReplay) Replay(ctx context.Context, destination string, calls []tracking.Call, traces event.Traces, from tracking.State) error {
	if err := j.Journal.Replay(ctx, destination, calls[:j.done], traces, from); err != nil {
		return err
	}
	return &journal.PartialReplayError{Replayed: j.done, Err: errors.New("the disk is full")}
}

func TestDrainEndsReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCollector(t, engine.Config{
			Journal:       &stuckList{journal.NewMemory(0)},
			Destinations:  []tracking.Destination{hook("crm")},
			WrapTransport: answering(func(string) (int, string) { return 400, "" }),
		})
		_, err := c.StartReplay("crm", engine.Selection{}, 1)
		require.NoError(t, err)
		synctest.Wait()
		c.Drain()
		synctest.Wait()
		assert.Equal(t, "the collector stopped: replay the remaining calls again", c.ReplayRuns()[0].Problem)
	})
}

// A stuckList is a journal with a Failed method that blocks until its context is canceled.
type stuckList struct{ journal.Journal }

func (*stuckList) Failed(ctx context.Context, _ string, _ func(journal.FailedCall) bool) error {
	<-ctx.Done()
	return ctx.Err()
}

// Failure times may be in the future if the clock was set back, or if another machine's clock is
// ahead.
func TestReplayOfFutureFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCollector(t, engine.Config{
			Journal:       &aheadList{journal.NewMemory(0)},
			Destinations:  []tracking.Destination{hook("crm")},
			WrapTransport: answering(func(string) (int, string) { return 400, "" }),
		})
		send(t, c, "m", 3)
		time.Sleep(time.Second)
		n, err := c.Replay(t.Context(), "crm", engine.Selection{})
		require.NoError(t, err)
		assert.Equal(t, 3, n)
	})
}

// An aheadList is a journal that reports failure times one hour ahead.
type aheadList struct{ journal.Journal }

func (j *aheadList) Failed(ctx context.Context, destination string, yield func(journal.FailedCall) bool) error {
	return j.Journal.Failed(ctx, destination, func(f journal.FailedCall) bool {
		f.FailedAt = f.FailedAt.Add(time.Hour)
		return yield(f)
	})
}

func TestOneReplayPerDestination(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowList{Journal: journal.NewMemory(0), listed: make(chan struct{})}
		c := newCollector(t, engine.Config{
			Journal:       slow,
			Destinations:  []tracking.Destination{hook("crm")},
			WrapTransport: answering(func(string) (int, string) { return 400, "" }),
		})
		_, err := c.StartReplay("nobody", engine.Selection{}, 1)
		require.ErrorIs(t, err, state.ErrUnknown)

		send(t, c, "m", 1)
		time.Sleep(time.Second)
		for range 25 {
			_, err = c.StartReplay("crm", engine.Selection{Cause: "another"}, 0)
			require.NoError(t, err)
			_, err = c.StartReplay("crm", engine.Selection{}, 0)
			require.ErrorIs(t, err, engine.ErrReplaying)
			slow.listed <- struct{}{}
			synctest.Wait()
		}
		require.Len(t, c.ReplayRuns(), 20)
		close(slow.listed)

		require.NoError(t, c.Pause(t.Context(), "crm"))
		_, err = c.StartReplay("crm", engine.Selection{}, 1)
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, 1, c.ReplayRuns()[0].Pending, "the destination is paused")
		require.NoError(t, c.Apply(t.Context(), settings.Settings{}))
		assert.Contains(t, c.ReplayRuns()[0].Problem, "removed")
		assert.Empty(t, c.Problems().Failed)

		require.NoError(t, c.Close())
		_, err = c.StartReplay("crm", engine.Selection{}, 1)
		require.Error(t, err)
	})
}

func TestReplayObservesOtherCollectors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCollector(t, engine.Config{
			Destinations:  []tracking.Destination{hook("crm")},
			WrapTransport: answering(func(string) (int, string) { return 400, "" }),
		})
		send(t, c, "m", 1)
		synctest.Wait()
		require.NoError(t, c.Pause(t.Context(), "crm")) // the pause simulates delivery by another collector
		_, err := c.StartReplay("crm", engine.Selection{}, 1)
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, 1, c.ReplayRuns()[0].Pending)
		c.ObserveRemote(tracking.Ended{CallID: "m-0", Source: "key", Destination: "crm", Attempt: 1, At: time.Now(), Outcome: tracking.Outcome{State: tracking.StateDelivered}})
		run := c.ReplayRuns()[0]
		assert.True(t, run.Settled())
		assert.Equal(t, 1, run.Delivered)
	})
}

// A replay does not apply to a new destination with the same name.
func TestReplayEndsWithItsDestination(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowList{Journal: journal.NewMemory(0), listed: make(chan struct{})}
		c := newCollector(t, engine.Config{
			Journal:       slow,
			Destinations:  []tracking.Destination{hook("crm")},
			WrapTransport: answering(func(string) (int, string) { return 400, "" }),
		})
		send(t, c, "m", 150)
		time.Sleep(time.Second)
		_, err := c.StartReplay("crm", engine.Selection{}, 150)
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, c.Apply(t.Context(), settings.Settings{}))
		require.NoError(t, c.Apply(t.Context(), settings.Settings{Destinations: []tracking.Destination{hook("crm")}}))
		close(slow.listed)
		synctest.Wait()
		run := c.ReplayRuns()[0]
		assert.True(t, run.Settled(), "%+v", run)
		assert.Contains(t, run.Problem, "removed")
		assert.Zero(t, run.Followed)
		assert.Zero(t, run.Replayed, "the new destination with the same name is not affected")
	})
}

// A slowList is a journal that lists one call for each value received from the channel listed.
// When the channel is closed, it lists the remaining calls.
type slowList struct {
	journal.Journal
	listed chan struct{}
}

func (j *slowList) Failed(ctx context.Context, destination string, yield func(journal.FailedCall) bool) error {
	return j.Journal.Failed(ctx, destination, func(f journal.FailedCall) bool {
		<-j.listed
		return yield(f)
	})
}

func TestRunningReplaysAreRetained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []tracking.Destination
		for i := range 25 {
			all = append(all, hook(fmt.Sprint("d", i)))
		}
		slow := &slowList{Journal: journal.NewMemory(0), listed: make(chan struct{})}
		c := newCollector(t, engine.Config{
			Journal: slow, Destinations: all, WrapTransport: answering(func(string) (int, string) { return 400, "" }),
		})
		send(t, c, "m", 1)
		time.Sleep(time.Second)
		for _, d := range all {
			_, err := c.StartReplay(d.Name, engine.Selection{}, 1)
			require.NoError(t, err)
		}
		synctest.Wait()
		_, err := c.StartReplay("d0", engine.Selection{}, 1)
		require.ErrorIs(t, err, engine.ErrReplaying)
		assert.Len(t, c.ReplayRuns(), 25)
		close(slow.listed)
		synctest.Wait()
		_, err = c.StartReplay("d0", engine.Selection{}, 1)
		require.NoError(t, err)
		assert.Len(t, c.ReplayRuns(), 20)
	})
}
