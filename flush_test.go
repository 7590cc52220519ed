package analytics_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go"
)

// A callback that flushes as the client ends is not waited for in vain: what
// the spool keeps for the next process will not end in this one.
func TestCallbackFlushesAsTheSpoolIsClosed(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		c := &collector{decide: func(i int, _ post) answer { return answer{status: 403, hang: i > 0} }}
		var client *analytics.Client
		made, flushed := make(chan struct{}), make(chan error, 1)
		client = newClient(t, c, analytics.Config{Spool: dir, FlushAt: 1, CloseTimeout: time.Second, Callback: func(analytics.Result) {
			<-made
			flushed <- client.Flush(context.Background())
		}})
		track(t, client, "e", 2)
		close(made)
		start := time.Now()
		require.ErrorContains(t, client.Close(), "1 kept in the spool")
		require.Less(t, time.Since(start), 3*time.Second)
		require.ErrorContains(t, <-flushed, "1 kept in the spool")
	})
}
