package store

import (
	"context"
	"log/slog"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/fakenats"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
)

// TestWatchSurvivesRestart restarts a server, which loses the consumer. It changes a key before and
// after the reconnect.
func TestWatchSurvivesRestart(t *testing.T) {
	server := fakenats.New(false)
	s := New("test", false, slog.New(slog.DiscardHandler))
	s.Status.Up()
	reconnected := make(chan struct{})
	nc, err := nats.Connect("", nats.InProcessServer(server), nats.MaxReconnects(-1), nats.ReconnectWait(1), nats.ReconnectHandler(func(*nats.Conn) {
		s.Link.Swap(NewLink()).End()
		reconnected <- struct{}{}
	}))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	s.JS, err = Connected(nc)
	require.NoError(t, err)
	require.NoError(t, s.JS.Create(t.Context(), BucketStream(s.Names, record.BucketState, "")))
	b := NewBucket(s, record.BucketState, func(record.Accepted) {}, nil)
	require.NoError(t, b.Put(t.Context(), "k", nil)) // before Watch, so it is not reported
	ctx, cancel := context.WithCancel(t.Context())
	changes, err := b.Watch(ctx, "k")
	require.NoError(t, err)
	for range 3 {
		require.Empty(t, changes)
		require.NoError(t, b.Put(t.Context(), "k", nil))
		<-changes
		server.Stop()
		server.Start()
		<-reconnected
	}
	cancel()
	_, more := <-changes
	assert.False(t, more)
	s.Cancel(nil)
	s.Work.Wait()
}
