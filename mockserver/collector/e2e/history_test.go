package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
)

// TestCallsStayInOrderOfReceiptAfterKill kills a collector while many calls are pending. The next
// process attempts them in parallel, and accepts new calls in the meantime.
func TestCallsStayInOrderOfReceiptAfterKill(t *testing.T) {
	t.Parallel()
	blocked := make(chan struct{})
	receiver := harness.NewReceiver()
	t.Cleanup(receiver.Close)
	receiver.Answer(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-blocked:
		case <-r.Context().Done():
		}
	})
	t.Cleanup(func() { close(blocked) })
	path, address := configure(t, t.TempDir(), "data: data", destination("hook", receiver.URL))
	c := serve(t, path, address, nil)
	load := &harness.Load{URLs: []string{c.URL}, WriteKey: writeKey, Senders: 4, Batch: 20, Rate: 2000}
	stop := send(t, load)
	waitFor(t, time.Minute, "2,000 calls are stored", func() bool { return load.Sent.Load() >= 2000 })
	c.Kill()
	killed := time.Now()
	receiver.Answer(nil)
	c = serve(t, path, address, nil)
	sent := load.Sent.Load()
	waitFor(t, time.Minute, "new calls are stored", func() bool { return load.Sent.Load() >= sent+500 })
	stop()
	settled(t, c)

	var received []time.Time // newest first
	for before := ""; ; {
		var page struct {
			Calls []struct{ ReceivedAt time.Time }
			Next  int64
		}
		require.NoError(t, c.Ask(t.Context(), http.MethodGet, "/calls?limit=500"+before, nil, &page))
		for _, call := range page.Calls {
			received = append(received, call.ReceivedAt)
		}
		if page.Next == 0 {
			break
		}
		before = fmt.Sprintf("&before=%d", page.Next)
	}
	assert.GreaterOrEqual(t, int64(len(received)), load.Sent.Load(), "every call was attempted")
	first := slices.IndexFunc(received, func(at time.Time) bool { return at.Before(killed) })
	require.Positive(t, first, "new calls are listed first")
	earlier := received[first:]
	assert.GreaterOrEqual(t, len(earlier), 2000)
	assert.True(t, slices.IsSortedFunc(earlier, func(a, b time.Time) int { return b.Compare(a) }), "calls of the first process are in order of receipt")
}
