package jetstream_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/fakenats"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// TestReplayIsScheduledDespiteFailedMark loses a request of a replay after its calls are stored.
func TestReplayIsScheduledDespiteFailedMark(t *testing.T) {
	jetstream.CleanTimers()
	defer jetstream.CleanTimers()
	synctest.Test(t, func(t *testing.T) {
		server := fakenats.New(false)
		isStored := false
		server.SetDecider(func(r *fakenats.Request) (time.Duration, fakenats.Fate) {
			isStored = isStored || strings.HasPrefix(r.Subject, "analytics.b.")
			if isStored && strings.HasPrefix(r.Subject, "$JS.API.STREAM.MSG.GET.analytics-FAILED") {
				return 0, fakenats.Dropped
			}
			return time.Millisecond, fakenats.Done
		})
		j, err := jetstream.OpenOn(t.Context(), jetstream.Options{NATS: &jetstream.NATS{Replicas: 1}}, server.Link(), 1)
		require.NoError(t, err)
		defer func() { assert.NoError(t, j.Close()) }()
		r := attach(t, j, "crm")
		calls := appendCalls(t, j, "web", "m", 2)
		l := next(t, r)
		require.NoError(t, l.Finish(within(t), all(l.Entry(), tracking.StateFailed)))
		time.Sleep(time.Second)

		require.Error(t, j.Replay(t.Context(), "crm", calls, nil, tracking.StateFailed))
		assert.True(t, isStored)
		assert.Len(t, next(t, r).Entry().Calls, 2)
	})
}
