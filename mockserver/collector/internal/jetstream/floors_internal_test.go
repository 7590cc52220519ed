package jetstream

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// TestIdleDestinationsAreNotQueried checks that the journals of a cluster query the position of a
// consumer until the floor has reached it, and then send no more queries.
func TestIdleDestinationsAreNotQueried(t *testing.T) {
	cleanTimers()
	defer cleanTimers()
	synctest.Test(t, func(t *testing.T) {
		s := share(t)
		idle := func() {
			t.Helper()
			time.Sleep(3 * floorsEvery)
			var before, after [2]int64
			for i, m := range s.streams {
				before[i] = m.queries.Load()
			}
			time.Sleep(10 * floorsEvery)
			for i, m := range s.streams {
				after[i] = m.queries.Load()
			}
			require.Equal(t, before, after)
		}
		idle()
		s.append("a", 1)
		l, err := s.readers[0].Next(t.Context(), journal.Want{})
		require.NoError(t, err)
		require.NoError(t, l.Finish(t.Context(), journal.Result{Outcomes: []tracking.Outcome{{State: tracking.StateDelivered}}}))
		idle()
		for _, j := range s.journals {
			var floor uint64
			j.ledger.With("crm", func(a *ledger.Account) { floor = a.Floor })
			calls, _ := j.ledger.Position()
			require.Equal(t, calls, floor)
		}
	})
}
