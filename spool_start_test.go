package analytics_test

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go"
	"github.com/seed-45eadc4a/analytics-go/internal/leaks"
)

// A client sends the calls of a previous process even if it makes no calls.
func TestSpoolIsSentWithoutACall(t *testing.T) {
	for way, use := range map[string]func(t *testing.T, client *analytics.Client, collect func()) error{
		"Close": func(_ *testing.T, client *analytics.Client, collect func()) error {
			collect()
			return client.Close()
		},
		"Shutdown": func(t *testing.T, client *analytics.Client, collect func()) error {
			collect()
			return client.Shutdown(shortContext(t))
		},
		"Flush": func(t *testing.T, client *analytics.Client, collect func()) error {
			collect()
			return client.Flush(shortContext(t))
		},
		"Stats": func(t *testing.T, client *analytics.Client, collect func()) error {
			defer collect()
			s := client.Stats()
			requireSum(t, s)
			require.EqualValues(t, 5, s.Recovered)
			require.EqualValues(t, 5, s.Accepted)
			require.Positive(t, s.SpoolBytes)
			collect()
			require.Eventually(t, func() bool { return client.Stats().Delivered == 5 }, time.Minute, time.Millisecond)
			return nil
		},
	} {
		t.Run(way, func(t *testing.T) {
			dir := t.TempDir()
			leaveCalls(t, dir, "left", 5)
			collecting := make(chan struct{})
			up := &collector{decide: func(int, post) answer {
				<-collecting
				return answer{}
			}}
			client := newClient(t, up, analytics.Config{Spool: dir, FlushAt: 1})
			require.NoError(t, use(t, client, sync.OnceFunc(func() { close(collecting) })))
			require.Len(t, up.taken("event"), 5)
			require.NoError(t, client.Close())
			require.NoError(t, client.Close())
			require.Equal(t, analytics.Stats{Accepted: 5, Recovered: 5, Delivered: 5, Batches: 5, Attempts: 5}, client.Stats())
		})
	}
}

func TestCloseReportsUndeliveredCalls(t *testing.T) {
	dir := t.TempDir()
	leaveCalls(t, dir, "left", 5)
	synctest.Test(t, func(t *testing.T) {
		client := newClient(t, newDownCollector(), analytics.Config{Spool: dir})
		var undelivered *analytics.UndeliveredError
		require.ErrorAs(t, client.Close(), &undelivered)
		require.EqualValues(t, 5, undelivered.Pending)
	})
	require.Equal(t, int64(5), recovered(t, dir))
}

// A method that opens a slow spool returns when its context is done. The spool still opens in the
// background. If the method is Shutdown, the client is closed.
func TestContextEndsWhileTheSpoolIsOpened(t *testing.T) {
	leaks.Check(t)
	for way, use := range map[string]func(ctx context.Context, client *analytics.Client) error{
		"Enqueue": func(ctx context.Context, client *analytics.Client) error {
			return client.Enqueue(ctx, &analytics.Track{Event: "e", UserId: "u"})
		},
		"Flush":    func(ctx context.Context, client *analytics.Client) error { return client.Flush(ctx) },
		"Shutdown": func(ctx context.Context, client *analytics.Client) error { return client.Shutdown(ctx) },
	} {
		t.Run(way, func(t *testing.T) {
			dir := t.TempDir()
			leaveCalls(t, dir, "left", 5)
			up := &collector{}
			if way == "Shutdown" {
				up = newDownCollector()
			}
			client := newClient(t, up, analytics.Config{Spool: dir})
			open := analytics.HoldOpening(t, client)
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			err := use(ctx, client)
			open()
			require.ErrorIs(t, err, analytics.ErrSpool)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			if way == "Shutdown" {
				require.ErrorIs(t, client.Track(&analytics.Track{Event: "e", UserId: "u"}), analytics.ErrClosed)
				require.ErrorIs(t, client.Close(), context.DeadlineExceeded, "as the first time")
			} else {
				require.NoError(t, client.Close())
				require.Len(t, up.taken("event"), 5)
			}
		})
	}
}

// recovered returns the number of calls that a new client finds in a directory.
func recovered(t *testing.T, dir string) int64 {
	client := newClient(t, &collector{}, analytics.Config{Spool: dir})
	require.NoError(t, client.Flush(shortContext(t)))
	require.NoError(t, client.Close())
	require.Zero(t, client.Stats().Dropped.Total())
	return client.Stats().Delivered
}

// The error for a long path contains the start of the path and the reason.
func TestSpoolPathIsTooLong(t *testing.T) {
	for _, dir := range []string{filepath.Join(t.TempDir(), strings.Repeat("é", 50_000)), t.TempDir() + strings.Repeat("/dir", 2000)} {
		client := newClient(t, &collector{}, analytics.Config{Spool: dir})
		err := client.Track(&analytics.Track{Event: "e", UserId: "u"})
		require.ErrorIs(t, err, analytics.ErrSpool)
		require.ErrorContains(t, err, "too long")
		require.Less(t, len(err.Error()), 300)
	}
}
