package analytics

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// While one goroutine starts a client, the others wait no longer than their
// contexts say.
func TestContextEndsWhileTheClientStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := NewWithConfig("key", Config{Spool: t.TempDir()})
		require.NoError(t, err)
		s := &starting{done: make(chan struct{})}
		client.starting = s
		for _, use := range []func(ctx context.Context) error{
			func(ctx context.Context) error { return client.Enqueue(ctx, &Track{Event: "e", UserId: "u"}) },
			client.Flush,
			client.Shutdown,
			client.Shutdown,
		} {
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			err := use(ctx)
			cancel()
			require.ErrorIs(t, err, ErrSpool)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, time.Minute, time.Since(start))
		}
		require.Equal(t, Stats{Rejected: Rejects{Spool: 1}}, client.Stats())
		close(s.done)
	})
}

// A context that had ended before does not bound the opening; a second does.
func TestContextHasEndedBeforeTheClientStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := NewWithConfig("key", Config{Spool: t.TempDir()})
		require.NoError(t, err)
		client.starting = &starting{done: make(chan struct{})}
		start := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, client.Flush(ctx), context.Canceled)
		require.Equal(t, time.Second, time.Since(start))
	})
}

func TestStatsDoesNotWaitLongForTheSpool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := NewWithConfig("key", Config{Spool: t.TempDir()})
		require.NoError(t, err)
		s := &starting{done: make(chan struct{})}
		client.starting = s
		start := time.Now()
		require.Zero(t, client.Stats())
		require.Equal(t, time.Second, time.Since(start))
		close(s.done)
	})
}
