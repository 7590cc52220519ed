package jetstream

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// failedCalls returns a journal with a destination that has n failed calls.
func failedCalls(t *testing.T, dir string, n int) *Journal {
	t.Helper()
	j, err := Open(within(t), Options{Dir: dir})
	require.NoError(t, err)
	r, err := j.Attach(within(t), "crm", nil)
	require.NoError(t, err)
	calls := make([]tracking.Call, n)
	for i := range calls {
		id := fmt.Sprintf("m-%d", i)
		calls[i] = tracking.Call{Source: "web", ID: id, Body: fmt.Appendf(nil, `{"type":"track","messageId":%q}`, id)}
	}
	require.NoError(t, j.Append(within(t), event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: calls}))
	for ended := 0; ended < n; {
		l, err := r.Next(within(t), journal.Want{})
		require.NoError(t, err)
		result := journal.Result{Outcomes: make([]tracking.Outcome, len(l.Entry().Calls))}
		for i := range result.Outcomes {
			result.Outcomes[i].State = tracking.StateFailed
		}
		ended += len(result.Outcomes)
		require.NoError(t, l.Finish(within(t), result))
	}
	return j
}

func listedAsFailed(t *testing.T, j *Journal) []tracking.Call {
	t.Helper()
	return listedAs(t, j, tracking.StateFailed)
}

// listedAs returns the calls listed as failed or as filtered.
func listedAs(t *testing.T, j *Journal, state tracking.State) (calls []tracking.Call) {
	t.Helper()
	require.NoError(t, j.Failed(within(t), "crm", func(f journal.FailedCall) bool {
		if f.Filtered == (state == tracking.StateFiltered) {
			calls = append(calls, f.Call)
		}
		return true
	}))
	return calls
}

// TestReplayCountsOnceAfterAKill kills a process after it has stored a replay and before it has
// applied the replay. A later replay of the listed calls, in that process or the next, must not
// replay any call twice.
func TestReplayCountsOnceAfterAKill(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart %v", restart), func(t *testing.T) {
			dir := t.TempDir()
			j := failedCalls(t, dir, 200)
			calls := listedAsFailed(t, j)
			require.Len(t, calls, 200)
			look, err := j.prepareReplay(within(t), "crm", calls, tracking.StateFailed)
			require.NoError(t, err)
			_, err = j.storeReplay(within(t), look, calls[:128], nil)
			require.NoError(t, err)
			if restart {
				require.NoError(t, j.Close())
				j, err = Open(within(t), Options{Dir: dir})
				require.NoError(t, err)
			}
			t.Cleanup(func() { assert.NoError(t, j.Close()) })

			require.ErrorContains(t, j.Replay(within(t), "crm", calls[:1], nil, tracking.StateFailed), "not in the list of failed calls")
			left := listedAsFailed(t, j)
			assert.Len(t, left, 72)
			require.NoError(t, j.Replay(within(t), "crm", left, nil, tracking.StateFailed))
			assert.Empty(t, listedAsFailed(t, j))
			ledgers, err := j.Ledger(within(t))
			require.NoError(t, err)
			assert.True(t, ledgers[0].Holds(), "%+v", ledgers[0])
			assert.EqualValues(t, 200, ledgers[0].Pending)
		})
	}
}

// TestReplaysFindCallsInAnyOrder replays calls before and after the calls of earlier replays.
func TestReplaysFindCallsInAnyOrder(t *testing.T) {
	j := failedCalls(t, t.TempDir(), 2*record.PartCalls)
	t.Cleanup(func() { assert.NoError(t, j.Close()) })
	calls := listedAsFailed(t, j)
	for _, some := range [][]tracking.Call{calls[150:], calls[:10], slices.Concat(calls[140:150], calls[10:20]), calls[20:140]} {
		require.NoError(t, j.Replay(within(t), "crm", some, nil, tracking.StateFailed))
		require.ErrorContains(t, j.Replay(within(t), "crm", some[:1], nil, tracking.StateFailed), "not in the list of failed calls")
	}
	assert.Empty(t, listedAsFailed(t, j))
}

// TestPartialReplayReportsItsProgress replays calls of several sources, which are stored as
// several messages. If the second message fails, the replay of the first one is still counted.
func TestPartialReplayReportsItsProgress(t *testing.T) {
	j := failedCalls(t, t.TempDir(), 3)
	t.Cleanup(func() { assert.NoError(t, j.Close()) })
	large := make([]byte, 9<<20) // exceeds the maximum size of a message
	_, _ = rand.NewChaCha8([32]byte{}).Read(large)
	calls := append(listedAsFailed(t, j)[:2], tracking.Call{Source: "app", ID: "large", Body: large})
	err := j.Replay(within(t), "crm", calls, nil, tracking.StateDelivered)
	var partial *journal.PartialReplayError
	require.ErrorAs(t, err, &partial)
	assert.Equal(t, 2, partial.Replayed)
	assert.ErrorContains(t, err, "with 1 calls remaining")
}

// TestLateReplayIsRejected checks that a delayed replay is rejected if another replay of the same
// calls was stored before it.
func TestLateReplayIsRejected(t *testing.T) {
	j := failedCalls(t, t.TempDir(), 3)
	t.Cleanup(func() { assert.NoError(t, j.Close()) })
	calls := listedAsFailed(t, j)
	late, err := j.prepareReplay(within(t), "crm", calls, tracking.StateFailed)
	require.NoError(t, err)

	require.NoError(t, j.Replay(within(t), "crm", calls[:2], nil, tracking.StateFailed))
	_, err = j.storeReplay(within(t), late, calls, nil)
	require.ErrorIs(t, err, errSuperseded)

	proofs, err := j.Verify(within(t))
	require.NoError(t, err)
	assert.True(t, proofs[0].OK(), "%+v", proofs[0])
	assert.EqualValues(t, 2, proofs[0].Ledger.Pending)
	assert.EqualValues(t, 1, proofs[0].Ledger.Failed)
}

// TestLateMarkIsRejected checks a mark that arrives after the next replay has marked more calls.
func TestLateMarkIsRejected(t *testing.T) {
	j := failedCalls(t, t.TempDir(), 3)
	t.Cleanup(func() { assert.NoError(t, j.Close()) })
	calls := listedAsFailed(t, j)
	look, err := j.prepareReplay(within(t), "crm", calls[:1], tracking.StateFailed)
	require.NoError(t, err)
	first, err := j.storeReplay(within(t), look, calls[:1], nil)
	require.NoError(t, err)
	require.Len(t, first.failed, 1)
	late, err := j.markMessage(within(t), "crm", first.failed[0])
	require.NoError(t, err)

	require.NoError(t, j.Replay(within(t), "crm", calls[1:2], nil, tracking.StateFailed))
	_, err = j.Publish(within(t), late)
	require.Truef(t, store.IsWrongSequence(err), "%v", err)
	assert.Equal(t, calls[2:], listedAsFailed(t, j))
}

// TestFailedCallsOfADetachedDestinationAreNotListed kills a process after it has stored that a destination
// is detached, and before it has removed the destination's failed calls. A new destination with the same
// name must not list or replay them.
func TestFailedCallsOfADetachedDestinationAreNotListed(t *testing.T) {
	dir := t.TempDir()
	j := failedCalls(t, dir, 3)
	calls := listedAsFailed(t, j)
	require.Len(t, calls, 3)
	require.NoError(t, j.control(within(t), "crm", record.Control{Name: "crm", Detach: true}))
	require.NoError(t, j.Close())

	j, err := Open(within(t), Options{Dir: dir})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, j.Close()) })
	_, err = j.Attach(within(t), "crm", nil)
	require.NoError(t, err)
	assert.Empty(t, listedAsFailed(t, j))
	require.ErrorContains(t, j.Replay(within(t), "crm", calls[:1], nil, tracking.StateFailed), "not in the list of failed calls")
}

// TestMarksAreStoredOnce checks that a start does not store the marks of earlier replays again.
func TestMarksAreStoredOnce(t *testing.T) {
	dir := t.TempDir()
	j := failedCalls(t, dir, 3)
	require.NoError(t, j.Replay(within(t), "crm", listedAsFailed(t, j)[:2], nil, tracking.StateFailed))
	before, err := j.Measure(within(t), record.StreamFailed)
	require.NoError(t, err)
	require.NoError(t, j.Close())

	j, err = Open(within(t), Options{Dir: dir})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, j.Close()) })
	assert.Len(t, listedAsFailed(t, j), 1)
	after, err := j.Measure(within(t), record.StreamFailed)
	require.NoError(t, err)
	assert.Equal(t, before.LastSeq, after.LastSeq)
}
