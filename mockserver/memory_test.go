package mockserver_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/journaltest"
)

func TestMemoryJournal(t *testing.T) {
	journaltest.Run(t, journaltest.Options{
		Open: func(_ *testing.T, maxBytes int64) mockserver.Journal {
			return mockserver.NewMemoryJournal(maxBytes, nil)
		},
	})
}

// TestFailedCallsKeepNoWholeBatches: a failed call is kept after those are done that
// came with it, and shared their memory.
func TestFailedCallsKeepNoWholeBatches(t *testing.T) {
	const batches, size = 60, 400_000
	j := mockserver.NewMemoryJournal(0, nil)
	t.Cleanup(func() { _ = j.Close() })
	r, err := j.Attach(t.Context(), "d", nil)
	require.NoError(t, err)
	before := heap()
	for i := range batches {
		bodies := make([]byte, size)
		calls := []mockserver.Call{{ID: fmt.Sprint(i), Source: "s", Body: bodies[:100:100]}, {ID: fmt.Sprint("other ", i), Source: "s", Body: bodies[100:]}}
		require.NoError(t, j.Append(t.Context(), mockserver.Batch{Source: "s", Calls: calls}))
		lease, err := r.Next(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Finish(t.Context(), mockserver.Result{Outcomes: []mockserver.Outcome{{State: mockserver.StateFailed}, {State: mockserver.StateDelivered}}}))
	}
	assert.Less(t, int64(heap()-before), int64(batches*size/10))
	runtime.KeepAlive(j)
}
