package engine_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/ingest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

func TestReplayCallRefusesSecondReplayWithin10Seconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var requests atomic.Int64
		c := newCollector(t, engine.Config{
			Destinations:  []tracking.Destination{hook("crm"), hook("ads")},
			WrapTransport: answering(func(string) (int, string) { requests.Add(1); return 400, "" }),
		})
		send(t, c, "m", 1)
		synctest.Wait()
		require.EqualValues(t, 2, requests.Load())
		replay := func(destination string, dryRun bool) error {
			n, err := c.ReplayCall(t.Context(), destination, "key", "m-0", dryRun)
			if err == nil {
				assert.Equal(t, 1, n)
			}
			synctest.Wait()
			return err
		}
		require.NoError(t, replay("crm", false))
		assert.EqualValues(t, 3, requests.Load())
		time.Sleep(9 * time.Second)
		err := replay("crm", false)
		require.ErrorIs(t, err, state.ErrReplayedRecently)
		assert.EqualError(t, err, `mockserver: the call was replayed within the last 10 seconds: call "m-0", destination "crm"; retry in 1 s`)
		assert.EqualValues(t, 3, requests.Load())
		require.NoError(t, replay("crm", true), "a dry run sends nothing")
		require.NoError(t, replay("ads", false), "the limit applies to each destination")
		time.Sleep(time.Second)
		require.NoError(t, replay("crm", false))
		assert.EqualValues(t, 5, requests.Load())

		require.NoError(t, c.Pause(t.Context(), "crm"))
		time.Sleep(10 * time.Second)
		require.NoError(t, replay("crm", false))
		time.Sleep(10 * time.Second)
		require.ErrorIs(t, replay("crm", false), state.ErrNotReplayable, "the call is pending")
	})
}

func TestReplayCallMayBeRetriedAfterAnErrorOfTheJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := &fullOnce{Journal: journal.NewMemory(0)}
		c := newCollector(t, engine.Config{
			Journal:       full,
			Destinations:  []tracking.Destination{hook("crm")},
			WrapTransport: answering(func(string) (int, string) { return 400, "" }),
		})
		send(t, c, "m", 1)
		synctest.Wait()
		_, err := c.ReplayCall(t.Context(), "crm", "key", "m-0", false)
		require.ErrorContains(t, err, "the disk is full")
		n, err := c.ReplayCall(t.Context(), "crm", "key", "m-0", false)
		require.NoError(t, err)
		assert.Equal(t, 1, n)
	})
}

// TestFailedReplayKeepsTheReason checks that calls that could not be replayed keep their reasons, and that
// the next replay contains each of them once.
func TestFailedReplayKeepsTheReason(t *testing.T) {
	for from, reason := range map[tracking.State]string{
		tracking.StateFailed:    "http://h/: responded with 400 (Bad Request)",
		tracking.StateFiltered:  "plan: the event is not in the plan",
		tracking.StateDelivered: "",
	} {
		t.Run(from.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				quarantines := from == tracking.StateFiltered
				c := newCollector(t, engine.Config{
					Journal:      &fullOnce{Journal: journal.NewMemory(0)},
					Destinations: []tracking.Destination{hook("crm")},
					Plans:        planFunc(func() bool { return quarantines }),
					WrapTransport: answering(func(string) (int, string) {
						if from == tracking.StateFailed {
							return 400, ""
						}
						return 200, ""
					}),
				})
				send(t, c, "m", 2)
				synctest.Wait()
				_, err := c.Replay(t.Context(), "crm", engine.Selection{State: from})
				require.ErrorContains(t, err, "the disk is full")
				for r := range c.History().Backward(0) {
					last, _ := r.Last("crm")
					assert.Equal(t, strings.TrimPrefix(reason+"; it could not be replayed", "; "), last.Reason)
				}
				quarantines = false
				n, err := c.Replay(t.Context(), "crm", engine.Selection{State: from})
				require.NoError(t, err)
				assert.Equal(t, 2, n)
				synctest.Wait()
				ledgers, err := c.Ledger(t.Context())
				require.NoError(t, err)
				assert.True(t, ledgers[0].Holds(), "%+v", ledgers)
			})
		})
	}
}

// A planFunc is a plan that quarantines all calls while it returns true.
type planFunc func() bool

func (planFunc) Judge(*tracking.Call, []byte) (v ingest.Verdict) { return v }

func (p planFunc) Quarantine(*tracking.Call) string {
	if p() {
		return "the event is not in the plan"
	}
	return ""
}

// fullOnce is a journal that fails to replay the first time.
type fullOnce struct {
	journal.Journal
	failed bool
}

func (j *fullOnce) Replay(ctx context.Context, destination string, calls []tracking.Call, traces event.Traces, from tracking.State) error {
	if !j.failed {
		j.failed = true
		return errors.New("the disk is full")
	}
	return j.Journal.Replay(ctx, destination, calls, traces, from)
}

func TestReplayWithEndedBeforeReplaysEachCallOnce(t *testing.T) {
	for status, from := range map[int]tracking.State{200: tracking.StateDelivered, 400: tracking.StateFailed} {
		synctest.Test(t, func(t *testing.T) {
			c := newCollector(t, engine.Config{
				Destinations:  []tracking.Destination{hook("crm")},
				WrapTransport: answering(func(string) (int, string) { return status, "" }),
			})
			send(t, c, "m", 3)
			time.Sleep(time.Second)
			sel := engine.Selection{State: from, EndedBefore: time.Now()}
			for _, want := range []int{3, 0} {
				n, err := c.Replay(t.Context(), "crm", sel)
				require.NoError(t, err)
				assert.Equal(t, want, n, from)
				time.Sleep(time.Second)
			}
		})
	}
}
