package jetstream_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjetstream "github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream"
)

// startServer starts a NATS server in this process. The server has a fixed storage limit instead
// of a limit that depends on the disk, because journals reserve space.
func startServer(t *testing.T, change func(*server.Options)) (*server.Server, *server.Options) {
	t.Helper()
	o := &server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, JetStream: true, JetStreamMaxStore: 1 << 40, StoreDir: t.TempDir()}
	change(o)
	s, err := server.NewServer(o)
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	require.True(t, s.ReadyForConnections(patience))
	return s, o
}

func TestConnectionErrorsContainNoPassword(t *testing.T) {
	for servers, want := range map[string]string{
		"nats://user:hunter2@127.0.0.1:1, hunter2@127.0.0.1:2": "connecting to nats://127.0.0.1:1,127.0.0.1:2: nats: no servers available",
		"nats://user:%zhunter2@127.0.0.1:1":                    "connecting to nats://127.0.0.1:1: it is not a URL: ",
	} {
		_, err := jetstream.Open(within(t), jetstream.Options{NATS: &jetstream.NATS{URL: servers}})
		require.Error(t, err)
		assert.Contains(t, err.Error(), want)
		assert.NotContains(t, err.Error(), "hunter2")
	}
}

func TestServersWithSmallMessageLimitAreRejected(t *testing.T) {
	s, _ := startServer(t, func(o *server.Options) { o.MaxPayload = 1 << 20 })
	_, err := jetstream.Open(within(t), jetstream.Options{NATS: &jetstream.NATS{URL: s.ClientURL(), Replicas: 1, AcceptLazySync: true}, CallBytes: 2 << 20})
	require.Error(t, err)
	assert.Contains(t, err.Error(), "accepts messages of at most 1048576 bytes")
	open(t, jetstream.Options{NATS: &jetstream.NATS{URL: s.ClientURL(), Replicas: 1, AcceptLazySync: true}})
}

func TestRefusedCredentialsAreRetried(t *testing.T) {
	s, o := startServer(t, func(o *server.Options) { o.Username, o.Password = "user", "right" })
	refused := make(chan string, 100)
	j := open(t, jetstream.Options{
		NATS:   &jetstream.NATS{URL: strings.Replace(s.ClientURL(), "//", "//user:right@", 1), Replicas: 1, AcceptLazySync: true},
		Logger: slog.New(messages{slog.DiscardHandler, refused}),
	})
	change := func(password string) {
		changed := o.Clone()
		changed.Password = password
		require.NoError(t, s.ReloadOptions(changed))
	}
	change("other")
	ctx, cancel := contextUntil(t, time.Now().Add(patience))
	defer cancel()
	for n := 0; n < 6; { // three times for each connection
		select {
		case text := <-refused:
			if strings.Contains(text, "authorization violation") {
				n++
			}
		case <-ctx.Done():
			t.Fatalf("reconnecting stopped after %d refusals", n)
		}
	}
	require.Error(t, j.Ready(within(t)))
	change("right")
	require.Eventually(t, func() bool { return j.Ready(within(t)) == nil }, patience, 10*time.Millisecond)
}

// messages is a log handler that sends error messages to a channel.
type messages struct {
	slog.Handler
	errors chan<- string
}

func (m messages) Enabled(context.Context, slog.Level) bool { return true }

func (m messages) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		select {
		case m.errors <- a.Value.String():
		default: // the test does not read all errors
		}
		return true
	})
	return nil
}

// TestReplayLockIsRenewed checks that a long replay renews its lock. A replay that loses the lock
// must stop, because another replay may have started.
func TestReplayLockIsRenewed(t *testing.T) {
	s, _ := startServer(t, func(*server.Options) {})
	options := jetstream.Options{NATS: &jetstream.NATS{URL: s.ClientURL(), Replicas: 1, AcceptLazySync: true}}
	first, second := open(t, options), open(t, options)
	ctx, cancel := contextUntil(t, time.Now().Add(patience))
	defer cancel()
	renew, unlock, err := first.LockReplay(ctx, "crm", time.Minute)
	require.NoError(t, err)
	require.NoError(t, renew(ctx))

	soon, stop := context.WithTimeout(ctx, 300*time.Millisecond)
	defer stop()
	_, _, err = second.LockReplay(soon, "crm", 0)
	require.ErrorIs(t, err, context.DeadlineExceeded, "the first replay has the lock")
	unlock(ctx)
	_, unlock, err = second.LockReplay(ctx, "crm", 0)
	require.NoError(t, err)
	unlock(ctx)

	renew, unlock, err = first.LockReplay(ctx, "crm", time.Minute)
	require.NoError(t, err)
	defer unlock(ctx)
	nc, err := nats.Connect(s.ClientURL())
	require.NoError(t, err)
	defer nc.Close()
	js, err := natsjetstream.New(nc)
	require.NoError(t, err)
	state, err := js.Stream(ctx, "analytics-STATE")
	require.NoError(t, err)
	require.NoError(t, state.Purge(ctx), "expires the lock")
	require.ErrorContains(t, renew(ctx), "the lock that excludes other collectors could not be renewed")
}
