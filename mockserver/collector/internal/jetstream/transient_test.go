package jetstream_test

import (
	"context"
	"iter"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjetstream "github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream"
)

// steps are the operations of a collector's start.
var steps = map[string]func(context.Context, *jetstream.Journal) error{
	"settings": func(ctx context.Context, j *jetstream.Journal) error {
		_, _, err := j.Settings().Get(ctx, "settings")
		return err
	},
	"state": func(ctx context.Context, j *jetstream.Journal) error {
		_, err := j.State().Watch(ctx, "lists")
		return err
	},
	"stored calls": func(ctx context.Context, j *jetstream.Journal) error {
		return j.Seen(ctx, time.Time{}, 100, func(string, iter.Seq[string]) bool { return true })
	},
	"a destination": func(ctx context.Context, j *jetstream.Journal) error {
		_, err := j.Attach(ctx, "crm", nil)
		return err
	},
}

// checkTransient checks that all errors of a start are transient.
func checkTransient(t *testing.T, j *jetstream.Journal) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var trying sync.WaitGroup
	for name, step := range steps {
		trying.Go(func() {
			err := step(ctx, j)
			assert.Error(t, err, name)
			assert.True(t, jetstream.Transient(err), "%s: %v", name, err)
		})
	}
	trying.Wait()
}

// TestStartWaitsForNewStreams simulates that the servers of a cluster see a new stream at
// different times.
func TestStartWaitsForNewStreams(t *testing.T) {
	t.Parallel()
	s, _ := startServer(t, func(*server.Options) {})
	j := open(t, jetstream.Options{NATS: &jetstream.NATS{URL: s.ClientURL(), Replicas: 1, AcceptLazySync: true}})
	attach(t, j, "crm")
	nc, err := nats.Connect(s.ClientURL())
	require.NoError(t, err)
	defer nc.Close()
	js, err := natsjetstream.New(nc)
	require.NoError(t, err)
	for name := range js.StreamNames(within(t)).Name() {
		require.NoError(t, js.DeleteStream(within(t), name))
	}
	checkTransient(t, j)
}

func TestStartWaitsForAReconnect(t *testing.T) {
	t.Parallel()
	s, _ := startServer(t, func(*server.Options) {})
	j := open(t, jetstream.Options{NATS: &jetstream.NATS{URL: s.ClientURL(), Replicas: 1, AcceptLazySync: true}})
	attach(t, j, "crm")
	s.Shutdown()
	s.WaitForShutdown()
	checkTransient(t, j)
}

func TestStartWaitsForAServerThatHangsUp(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	_, err = jetstream.Open(within(t), jetstream.Options{NATS: &jetstream.NATS{URL: "nats://" + l.Addr().String()}})
	require.Error(t, err)
	assert.True(t, jetstream.Transient(err), "%v", err)
}
