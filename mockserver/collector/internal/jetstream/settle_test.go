package jetstream_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A process that is killed may leave calls that have failed and are not yet listed. The
// next one lists all of them from its first moment on, and replays them.
func TestFailedCallsAreListedRightAfterAKill(t *testing.T) {
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
	require.NoError(t, j.Replay(within(t), "crm", failed, tracking.StateFailed))
	work(t, attach(t, j, "crm"), 2*batches, delivered)
	wantSums(t, verified(t, j, "crm"), "200 = 200 + 0 + 0 + 0")
}
