package engine_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// lateObserved returns a collector with one call. The webhook responds to the first attempt with
// the status first, and accepts later attempts. The first result is observed after let is closed.
func lateObserved(t *testing.T, first int) (c *engine.Collector, let chan struct{}) {
	let = make(chan struct{})
	status := first
	c = newCollector(t, engine.Config{
		Destinations: []tracking.Destination{hook("crm")},
		WrapTransport: answering(func(string) (int, string) {
			defer func() { status = 200 }()
			return status, ""
		}),
		Observers: []event.Observer{observerFunc(func(e event.Event) {
			if ended, ok := e.(tracking.Ended); ok && ended.State != tracking.StatePending {
				<-let
			}
		})},
	})
	send(t, c, "m", 1)
	synctest.Wait()
	return c, let
}

// The ledger counts calls as delivered before the History contains the result.
func TestReplayWaitsForObservers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, let := lateObserved(t, 200)
		all, err := c.Ledger(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 1, all[0].Delivered)
		id, err := c.StartReplay("crm", engine.Selection{State: tracking.StateDelivered}, 1)
		require.NoError(t, err)
		synctest.Wait()
		close(let)
		synctest.Wait()
		run, err := c.ReplayRun(id)
		require.NoError(t, err)
		assert.Equal(t, 1, run.Replayed)
		assert.True(t, run.Settled(), "%+v", run)
	})
}

// Calls that were delivered before a restart are not replayed as failed before the History is
// restored.
func TestReplayWaitsForRestoredHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, restored := history.New(0), make(chan struct{})
		h.RecordUnknown(func(*tracking.Call) {})
		c := newCollector(t, engine.Config{
			History: h, Restored: restored, Destinations: []tracking.Destination{hook("crm")},
			WrapTransport: answering(func(string) (int, string) { return 200, "" }),
		})
		id, err := c.StartReplay("crm", engine.Selection{State: tracking.StateDelivered}, 1)
		require.NoError(t, err)
		synctest.Wait()
		call := tracking.Call{Source: "key", ID: "m-0", Type: "track", ReceivedAt: time.Now(), Body: []byte(`{"type":"track","event":"E","messageId":"m-0"}`)}
		h.Restore(tracking.Ended{CallID: call.ID, Source: call.Source, Destination: "crm", At: time.Now(), Attempt: 1, Call: &call, Outcome: tracking.Outcome{State: tracking.StateDelivered}})
		close(restored)
		synctest.Wait()
		run, err := c.ReplayRun(id)
		require.NoError(t, err)
		assert.Equal(t, 1, run.Replayed)
	})
}

// The journal lists failed calls before observers are notified. The failure must be observed
// before the replay.
func TestFailureIsObservedBeforeReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, let := lateObserved(t, 400)
		require.NoError(t, c.Pause(t.Context(), "crm"))
		id, err := c.StartReplay("crm", engine.Selection{}, 1)
		require.NoError(t, err)
		synctest.Wait()
		close(let)
		synctest.Wait()
		record, _ := c.History().Find("key", "m-0")
		last, _ := record.Last("crm")
		assert.Equal(t, tracking.StatePending, last.State)
		require.NoError(t, c.Resume(t.Context(), "crm"))
		synctest.Wait()
		run, err := c.ReplayRun(id)
		require.NoError(t, err)
		assert.Equal(t, 1, run.Delivered, "%+v", run)
	})
}
