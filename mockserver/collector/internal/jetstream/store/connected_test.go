package store

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/fakenats"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
)

// TestErrorsWithoutServers calls each method while no server is reachable.
func TestErrorsWithoutServers(t *testing.T) {
	nc, err := nats.Connect("nats://127.0.0.1:1", nats.RetryOnFailedConnect(true), nats.ReconnectBufSize(-1))
	require.NoError(t, err)
	defer nc.Close()
	js, err := Connected(nc)
	require.NoError(t, err)
	lost := lostConsumer(t)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, do := range map[string]func(context.Context) error{
		"create":          func(ctx context.Context) error { return js.Create(ctx, jetstream.StreamConfig{Name: "S"}) },
		"update":          func(ctx context.Context) error { return js.Update(ctx, jetstream.StreamConfig{Name: "S"}) },
		"info":            func(ctx context.Context) error { _, err := js.Info(ctx, "S"); return err },
		"get":             func(ctx context.Context) error { _, err := js.Get(ctx, "S", 1); return err },
		"delete":          func(ctx context.Context) error { return js.Delete(ctx, "S", 1) },
		"consumer":        func(ctx context.Context) error { _, err := js.Consumer(ctx, "S", "c"); return err },
		"consumer info":   func(ctx context.Context) error { _, err := lost.Info(ctx); return err },
		"delete consumer": func(ctx context.Context) error { return js.DeleteConsumer(ctx, "S", "c") },
	} {
		assert.ErrorIs(t, do(t.Context()), journal.ErrNoResponse, name)
		err := do(canceled)
		assert.ErrorIs(t, err, context.Canceled, name)
		assert.NotErrorIs(t, err, journal.ErrNoResponse, name)
	}
}

// lostConsumer returns a consumer whose connection is closed.
func lostConsumer(t *testing.T) Consumer {
	t.Helper()
	nc, err := nats.Connect("", nats.InProcessServer(fakenats.New(false)))
	require.NoError(t, err)
	defer nc.Close()
	js, err := Connected(nc)
	require.NoError(t, err)
	require.NoError(t, js.Create(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}}))
	c, err := js.CreateConsumer(t.Context(), "S", jetstream.ConsumerConfig{AckPolicy: jetstream.AckNonePolicy})
	require.NoError(t, err)
	return c
}
