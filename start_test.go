package analytics

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// If its context is already done, Flush waits up to one second for the spool to open.
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
