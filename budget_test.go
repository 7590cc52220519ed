package analytics_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go"
)

// With a memory budget of any size, only the collector limits the throughput. No call waits for
// FlushAfter.
func TestSmallBudgetsDoNotStall(t *testing.T) {
	for _, spoolMax := range []int64{-1, 1 << 20, 1 << 30} { // -1 means no spool
		for _, maxBytes := range []int64{128 << 10, 256 << 10, 1 << 20} {
			if testing.Short() && maxBytes > 128<<10 {
				continue
			}
			for _, flushAt := range []int{1, 20, 250, 100_000} {
				for _, size := range []int{900, 30_000} {
					for _, policy := range []analytics.FullPolicy{analytics.Reject, analytics.Block} {
						cfg := analytics.Config{
							MaxBytes: maxBytes, FlushAt: flushAt, WhenFull: policy,
							FlushAfter: 10 * time.Second, CloseTimeout: time.Hour,
						}
						if size == 900 { // the callback makes the client store IDs, which also use memory
							cfg.Callback = func(analytics.Result) {}
						}
						if spoolMax > 0 {
							cfg.Spool, cfg.SpoolMaxBytes = t.TempDir(), spoolMax
						}
						t.Run(fmt.Sprint(spoolMax, maxBytes, flushAt, size, policy), func(t *testing.T) {
							synctest.Test(t, func(t *testing.T) { testFlow(t, cfg, size) })
						})
					}
				}
			}
		}
	}
}

func testFlow(t *testing.T, cfg analytics.Config, size int) {
	const pause = time.Millisecond
	c := always(answer{delay: pause})
	client := newClient(t, c, cfg)
	calls := int(2*cfg.MaxBytes) / size
	call := &analytics.Track{Event: strings.Repeat("e", size-300), UserId: "u"}
	began := time.Now()
	for range calls {
		err := client.Track(call)
		for errors.Is(err, analytics.ErrQueueFull) {
			time.Sleep(pause)
			err = client.Track(call)
		}
		require.NoError(t, err)
	}
	require.NoError(t, client.Close())
	require.EqualValues(t, calls, client.Stats().Delivered)
	require.Less(t, time.Since(began), time.Duration(2*len(c.all())+20)*pause, "%d requests", len(c.all()))
}
