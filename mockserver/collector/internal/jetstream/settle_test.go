package jetstream_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// TestFailedCallsAreListedRightAfterAKill kills a process before it has listed its failed calls.
// The next process must immediately list and replay them.
func TestFailedCallsAreListedRightAfterAKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := open(t, jetstream.Options{Dir: dir})
	r := attach(t, j, "crm")
	const batches = 100
	for i := range batches {
		appendCalls(t, j, "web", fmt.Sprint(i, "."), 2)
	}
	for n := 0; n < 2*batches; {
		l, err := r.Next(within(t), journal.Want{})
		require.NoError(t, err)
		result := journal.Result{}
		for range l.Entry().Calls {
			result.Outcomes = append(result.Outcomes, tracking.Outcome{State: tracking.StateFailed, Reason: "because"})
		}
		n += len(result.Outcomes)
		require.NoError(t, j.FinishUnsettled(l, result))
	}
	j = reopen(t, dir)
	var failed []tracking.Call
	require.NoError(t, j.Failed(within(t), "crm", func(f journal.FailedCall) bool {
		failed = append(failed, f.Call)
		return true
	}))
	assert.Len(t, failed, 2*batches)

	j = reopen(t, dir)
	require.NoError(t, j.Replay(within(t), "crm", failed, nil, tracking.StateFailed))
	work(t, attach(t, j, "crm"), 2*batches, delivered)
	wantSums(t, verified(t, j, "crm"), "200 = 200 + 0 + 0 + 0")
}

// TestTrimListsRecentlyFailedCalls kills a process after it has stored an outcome and before it
// has listed the failed calls. The calls must be listed before their message is removed.
func TestTrimListsRecentlyFailedCalls(t *testing.T) {
	dir := t.TempDir()
	j := open(t, jetstream.Options{Dir: dir, Keep: time.Millisecond})
	r := attach(t, j, "crm")
	appendCalls(t, j, "web", "a", 2)
	l, err := r.Next(within(t), journal.Want{})
	require.NoError(t, err)
	failed := tracking.Outcome{State: tracking.StateFailed, Reason: "because"}
	require.NoError(t, j.FinishUnsettled(l, journal.Result{Outcomes: []tracking.Outcome{failed, failed}}))
	time.Sleep(2 * time.Millisecond) // wait until all calls are older than Keep
	require.NoError(t, j.Trim(within(t)))
	stats, err := j.Stats(within(t))
	require.NoError(t, err)
	require.Zero(t, stats.Calls.Messages)

	j = reopen(t, dir)
	var listed []string
	require.NoError(t, j.Failed(within(t), "crm", func(f journal.FailedCall) bool {
		listed = append(listed, f.Reason)
		return true
	}))
	assert.Equal(t, []string{"because", "because"}, listed)
}
