package journal_test

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal/journaltest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

func TestMemoryJournal(t *testing.T) {
	journaltest.Run(t, journaltest.Options{
		Open: func(_ *testing.T, maxBytes int64) journal.Journal {
			return journal.NewMemory(maxBytes)
		},
		In: synctest.Test,
	})
}

// A failed call must not retain the memory of its batch.
func TestFailedCallsDoNotRetainBatches(t *testing.T) {
	const batches, size = 60, 400_000
	j := journal.NewMemory(0)
	r, err := j.Attach(t.Context(), "d", nil)
	require.NoError(t, err)
	before := heap()
	for i := range batches {
		bodies := make([]byte, size)
		calls := []tracking.Call{{ID: fmt.Sprint(i), Source: "s", Body: bodies[:100:100]}, {ID: fmt.Sprint("other ", i), Source: "s", Body: bodies[100:]}}
		require.NoError(t, j.Append(t.Context(), event.Batch{Source: "s", Calls: calls}))
		lease, err := r.Next(t.Context(), journal.Want{})
		require.NoError(t, err)
		require.NoError(t, lease.Finish(t.Context(), journal.Result{Outcomes: []tracking.Outcome{{State: tracking.StateFailed}, {State: tracking.StateDelivered}}}))
	}
	assert.Less(t, heap()-before, int64(batches*size/10))
	runtime.KeepAlive(j)
}

// The journal counts the memory of retries, and releases all memory at the end.
func TestMemoryJournalReleasesMemory(t *testing.T) {
	j := journal.NewMemory(100_000)
	used := func() int64 {
		health, err := j.Health(t.Context())
		require.NoError(t, err)
		return health.Bytes
	}
	readers := map[string]journal.Reader{}
	for _, name := range []string{"a", "b"} {
		r, err := j.Attach(t.Context(), name, []string{"s"})
		require.NoError(t, err)
		readers[name] = r
	}
	require.NoError(t, j.Append(t.Context(), event.Batch{Source: "other", Calls: make([]tracking.Call, 1_000)}), "no destination gets it")
	assert.Zero(t, used())
	finish := func(name string, outcomes ...tracking.Outcome) {
		lease, err := readers[name].Next(t.Context(), journal.Want{})
		require.NoError(t, err)
		require.NoError(t, lease.Finish(t.Context(), journal.Result{Outcomes: outcomes}))
	}
	pending, done := tracking.Outcome{State: tracking.StatePending, Note: "n"}, tracking.Outcome{State: tracking.StateDelivered}
	calls := []tracking.Call{{ID: "1", Source: "s", Body: make([]byte, 1_000)}, {ID: "2", Source: "s", Body: make([]byte, 1_000)}}
	require.NoError(t, j.Append(t.Context(), event.Batch{Source: "s", Calls: calls}))
	first := used()
	assert.Greater(t, first, int64(2_000))
	finish("a", pending, pending)
	assert.Greater(t, used(), first+2*int64(unsafe.Sizeof(tracking.Call{})))
	finish("b", done, done)
	finish("a", done, pending)
	assert.Greater(t, used(), int64(2_000), "calls share memory")
	finish("a", tracking.Outcome{State: tracking.StateFailed})
	assert.Zero(t, used())
	require.NoError(t, j.Replay(t.Context(), "a", calls, nil, tracking.StateFailed))
	assert.Greater(t, used(), int64(2_000))
	lease, err := readers["a"].Next(t.Context(), journal.Want{})
	require.NoError(t, err)
	require.NoError(t, j.Detach(t.Context(), "a"))
	assert.Zero(t, used())
	require.NoError(t, lease.Finish(t.Context(), journal.Result{Outcomes: []tracking.Outcome{pending, done}}))
	lease.Return()
	assert.Zero(t, used(), "the result has no effect")
}

func TestFailedCallsAreBounded(t *testing.T) {
	j := journal.NewMemory(80_000)
	r, err := j.Attach(t.Context(), "d", nil)
	require.NoError(t, err)
	fail := func(id string, size int) {
		calls := []tracking.Call{{ID: id, Source: "s", Body: make([]byte, size)}}
		require.NoError(t, j.Append(t.Context(), event.Batch{Source: "s", ReceivedAt: time.Now(), Calls: calls}))
		lease, err := r.Next(t.Context(), journal.Want{})
		require.NoError(t, err)
		require.NoError(t, lease.Finish(t.Context(), journal.Result{Outcomes: []tracking.Outcome{{State: tracking.StateFailed, Reason: "no"}}}))
	}
	failed := func() (ids []string) {
		require.NoError(t, j.Failed(t.Context(), "d", func(f journal.FailedCall) bool { ids = append(ids, f.Call.ID); return true }))
		return ids
	}
	for i := range 9 {
		fail(fmt.Sprint(i), 2_000)
	}
	assert.Equal(t, []string{"5", "6", "7", "8"}, failed(), "the newest calls, up to an eighth")
	require.NoError(t, j.Replay(t.Context(), "d", []tracking.Call{{ID: "6", Source: "s"}}, nil, tracking.StateFailed))
	lease, err := r.Next(t.Context(), journal.Want{})
	require.NoError(t, err)
	require.NoError(t, lease.Finish(t.Context(), journal.Result{Outcomes: []tracking.Outcome{{State: tracking.StateDelivered}}}))
	fail("9", 2_000)
	assert.Equal(t, []string{"5", "7", "8", "9"}, failed(), "replayed calls free memory")
	fail("10", 60_000)
	assert.Equal(t, []string{"10"}, failed(), "the newest call is always kept")
	ledgers, err := j.Ledger(t.Context())
	require.NoError(t, err)
	assert.Equal(t, int64(10), ledgers[0].Failed, "all are counted")
}

// heap returns the number of allocated bytes.
func heap() int64 {
	runtime.GC()
	runtime.GC() // the second run empties pools
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
