package journal_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/journal"
)

// steps are what a collector does with its journal while it starts.
var steps = map[string]func(context.Context, *journal.Journal) error{
	"settings": func(ctx context.Context, j *journal.Journal) error {
		_, err := j.Settings(ctx)
		return err
	},
	"state": func(ctx context.Context, j *journal.Journal) error {
		_, err := j.State(ctx)
		return err
	},
	"stored calls": func(ctx context.Context, j *journal.Journal) error {
		return j.Seen(ctx, 100, func(string, string, time.Time) bool { return true })
	},
	"a destination": func(ctx context.Context, j *journal.Journal) error {
		_, err := j.Attach(ctx, "crm", nil)
		return err
	},
}

// mayPass checks that whatever a start fails with now, it is tried again.
func mayPass(t *testing.T, j *journal.Journal) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var trying sync.WaitGroup
	for name, step := range steps {
		trying.Go(func() {
			err := step(ctx, j)
			assert.Error(t, err, name)
			assert.True(t, journal.Transient(err), "%s: %v", name, err)
		})
	}
	trying.Wait()
}

// What another collector has just created is not known to every server at once.
func TestWhatAClusterDoesNotHaveYetIsWaitedFor(t *testing.T) {
	t.Parallel()
	s, _ := startServer(t, func(*server.Options) {})
	j := open(t, journal.Options{NATS: &journal.NATS{URL: s.ClientURL(), Replicas: 1}})
	attach(t, j, "crm")
	nc, err := nats.Connect(s.ClientURL())
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	for name := range js.StreamNames(within(t)).Name() {
		require.NoError(t, js.DeleteStream(within(t), name))
	}
	mayPass(t, j)
}

func TestAConnectionThatIsMadeAgainIsWaitedFor(t *testing.T) {
	t.Parallel()
	s, _ := startServer(t, func(*server.Options) {})
	j := open(t, journal.Options{NATS: &journal.NATS{URL: s.ClientURL(), Replicas: 1}})
	attach(t, j, "crm")
	s.Shutdown()
	s.WaitForShutdown()
	mayPass(t, j)
}

func TestAServerThatHangsUpIsWaitedFor(t *testing.T) {
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
	_, err = journal.Open(within(t), journal.Options{NATS: &journal.NATS{URL: "nats://" + l.Addr().String()}})
	require.Error(t, err)
	assert.True(t, journal.Transient(err), "%v", err)
}
