package jetstream

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// TestMissingParkedCallsFail checks that a parked entry fails if its calls are no longer stored.
func TestMissingParkedCallsFail(t *testing.T) {
	t.Parallel()
	ctx := Within(t)
	j, err := Open(ctx, Options{Dir: t.TempDir()})
	require.NoError(t, err)
	defer func() { require.NoError(t, j.Close()) }()
	reader, err := j.Attach(ctx, "d", nil)
	require.NoError(t, err)
	call := tracking.Call{ID: "m", Source: "web", Type: "track", UserID: "u", ReceivedAt: time.Now(), Body: []byte(`{"type":"track","event":"E","userId":"u","messageId":"m"}`)}
	require.NoError(t, j.Append(ctx, event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: []tracking.Call{call}}))
	l, err := reader.Next(ctx, journal.Want{InOrder: true})
	require.NoError(t, err)
	require.NoError(t, l.Finish(ctx, journal.Result{Outcomes: []tracking.Outcome{{State: tracking.StatePending}}, Parked: true}))
	e := l.Entry()
	require.NoError(t, j.JS.Delete(ctx, j.Names.Stream(record.StreamCalls), e.First/(record.PartCalls*record.MaxParts)))
	require.NoError(t, reader.Waiting(ctx, func(journal.Entry, time.Time) bool { return true }))
	next, stop := context.WithTimeout(ctx, 3*time.Second)
	defer stop()
	_, err = reader.Next(next, journal.Want{InOrder: true})
	require.ErrorIs(t, err, context.DeadlineExceeded, "nothing can be leased")
	ledgers, err := j.Ledger(ctx)
	require.NoError(t, err)
	require.Len(t, ledgers, 1)
	require.EqualValues(t, 1, ledgers[0].Failed)
	require.Zero(t, ledgers[0].Pending)
}
