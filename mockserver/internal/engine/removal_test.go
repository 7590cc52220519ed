package engine_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// A stuckJournal detaches no destination while the disk is full.
type stuckJournal struct {
	journal.Journal
	full atomic.Bool
}

func (j *stuckJournal) Detach(ctx context.Context, destination string) error {
	if j.full.Load() {
		return errors.New("the disk is full")
	}
	return j.Journal.Detach(ctx, destination)
}

// TestFailedRemovalIsRepeated checks that a destination whose removal has failed is removed later, or
// works again if it is configured again.
func TestFailedRemovalIsRepeated(t *testing.T) {
	crm := settings.Settings{Destinations: []tracking.Destination{hook("crm")}}
	for name, test := range map[string]struct {
		remove, later func(c *engine.Collector) error
		kept          bool
	}{
		"reloaded again": {func(c *engine.Collector) error { return c.Apply(t.Context(), settings.Settings{}) }, func(c *engine.Collector) error { return c.Apply(t.Context(), settings.Settings{}) }, false},
		"kept":           {func(c *engine.Collector) error { return c.Apply(t.Context(), settings.Settings{}) }, func(c *engine.Collector) error { return c.Apply(t.Context(), crm) }, true},
		"in the API": {func(c *engine.Collector) error { return c.RemoveDestination(t.Context(), "crm", true) }, func(*engine.Collector) error {
			time.Sleep(time.Minute)
			return nil
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := &stuckJournal{Journal: journal.NewMemory(0)}
				c := newCollector(t, engine.Config{Journal: j, WrapTransport: answering(func(string) (int, string) { return 200, "" })})
				if name == "in the API" {
					require.NoError(t, c.AddDestination(t.Context(), crm.Destinations[0]))
				} else {
					require.NoError(t, c.Apply(t.Context(), crm))
				}
				j.full.Store(true)
				require.ErrorContains(t, test.remove(c), "the disk is full")
				time.Sleep(10 * time.Second)
				j.full.Store(false)
				require.NoError(t, test.later(c))
				send(t, c, "m", 3)
				synctest.Wait()
				ledgers, err := c.Ledger(t.Context())
				require.NoError(t, err)
				if !test.kept {
					assert.Empty(t, ledgers, "the journal still stores calls for the destination")
					assert.Empty(t, c.Status())
					return
				}
				require.Len(t, ledgers, 1)
				assert.EqualValues(t, 3, ledgers[0].Delivered)
			})
		})
	}
}

// TestFailedRemovalDoesNotBlockOtherChanges checks that other settings change while a removal fails, and
// that the removed destination cannot be replayed.
func TestFailedRemovalDoesNotBlockOtherChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		urls := make(chan string, 1)
		j := &stuckJournal{Journal: journal.NewMemory(0)}
		c := newCollector(t, engine.Config{
			Journal: j, Destinations: []tracking.Destination{hook("ads"), hook("crm")},
			Sender: webhook.SenderConfig{Transport: receiver(func(r *http.Request) error {
				urls <- r.URL.String()
				return nil
			})},
		})
		changed := hook("ads")
		changed.Webhooks[0].URL = "http://new/"
		j.full.Store(true)
		require.ErrorIs(t, c.Apply(t.Context(), settings.Settings{Destinations: []tracking.Destination{changed}}), engine.ErrNotRemoved)
		send(t, c, "m", 1)
		assert.Equal(t, "http://new/", <-urls)
		_, err := c.StartReplay("crm", engine.Selection{}, 1)
		require.ErrorIs(t, err, state.ErrUnknown)
		_, err = c.Replay(t.Context(), "crm", engine.Selection{})
		require.ErrorIs(t, err, state.ErrUnknown)
		require.ErrorIs(t, c.Pause(t.Context(), "ads"), engine.ErrNotRemoved)
		assert.True(t, c.Status()[0].Paused)
		j.full.Store(false)
		require.NoError(t, c.Resume(t.Context(), "ads"))
		assert.Len(t, c.Status(), 1)
	})
}

// TestChangeKeepsOtherBatches checks that the change of a destination does not delay the waiting batches of
// another one.
func TestChangeKeepsOtherBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := make(chan time.Time, 1)
		crm := hook("crm")
		crm.Batch = webhook.Batch{Calls: 10, Wait: webhook.Duration(10 * time.Second)}
		c := newCollector(t, engine.Config{
			Destinations: []tracking.Destination{crm},
			Sender: webhook.SenderConfig{Transport: receiver(func(*http.Request) error {
				sent <- time.Now()
				return nil
			})},
		})
		began := time.Now()
		send(t, c, "m", 1)
		time.Sleep(time.Second)
		require.NoError(t, c.AddDestination(t.Context(), hook("ads")))
		assert.Equal(t, 10*time.Second, (<-sent).Sub(began))
	})
}

// TestFailedApplyKeepsSettings checks that a change that cannot add a destination changes no other
// destination, and can be repeated.
func TestFailedApplyKeepsSettings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		urls := make(chan string, 2)
		j := &slowJournal{journal.NewMemory(0), errors.New("the disk is full")}
		c := newCollector(t, engine.Config{
			Journal: j, Destinations: []tracking.Destination{hook("crm")},
			Sender: webhook.SenderConfig{Transport: receiver(func(r *http.Request) error {
				urls <- r.URL.String()
				return nil
			})},
		})
		changed := hook("crm")
		changed.Webhooks[0].URL = "http://new/"
		both := settings.Settings{Destinations: []tracking.Destination{changed, hook("ads")}}
		require.ErrorIs(t, c.Apply(t.Context(), both), j.err)
		send(t, c, "m", 1)
		assert.Equal(t, "http://h/", <-urls)
		j.err = nil
		require.NoError(t, c.Apply(t.Context(), both))
		send(t, c, "n", 1)
		assert.ElementsMatch(t, []string{"http://new/", "http://h/"}, []string{<-urls, <-urls})
	})
}
