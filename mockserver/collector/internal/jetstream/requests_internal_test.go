package jetstream

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal/journaltest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// TestRequestForSeveralMessages checks that calls that arrive one by one do not need a request each.
func TestRequestForSeveralMessages(t *testing.T) {
	const calls = 20
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	j, err := Open(ctx, Options{Dir: t.TempDir()})
	require.NoError(t, err)
	defer func() { require.NoError(t, j.Close()) }()
	requests, err := j.conns.out.SubscribeSync("$JS.API.CONSUMER.MSG.NEXT." + j.Names.Stream(record.StreamCalls) + ".*")
	require.NoError(t, err)
	r, err := j.Attach(ctx, "crm", nil)
	require.NoError(t, err)
	for range calls {
		require.NoError(t, j.Append(ctx, event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: journaltest.Calls("web", "m", 1)}))
		l, err := r.Next(ctx, journal.Want{})
		require.NoError(t, err)
		require.NoError(t, l.Finish(ctx, journal.Result{Outcomes: []tracking.Outcome{{State: tracking.StateDelivered}}}))
	}
	require.NoError(t, j.conns.out.FlushWithContext(ctx))
	n, _, err := requests.Pending()
	require.NoError(t, err)
	assert.Positive(t, n)
	assert.Less(t, n, calls/2)
}
