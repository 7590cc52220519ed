package jetstream_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/servers"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
)

// serversOf returns the servers known to a journal.
func serversOf(t *testing.T, j *jetstream.Journal) []journal.Server {
	t.Helper()
	var servers []journal.Server
	require.Eventually(t, func() bool {
		health, _ := j.Health(within(t))
		servers = health.Servers
		return len(servers) > 0
	}, patience, 10*time.Millisecond)
	return servers
}

func TestLazilySyncingServersAreRejected(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(*server.Options)
		accept   bool
		interval string // empty if the setting is accepted
		sync     string
	}{
		"by default":    {func(*server.Options) {}, false, "2m0s", ""},
		"each second":   {func(o *server.Options) { o.SyncInterval = time.Second }, false, "1s", ""},
		"accepted":      {func(*server.Options) {}, true, "", journal.SyncLazy},
		"always":        {func(o *server.Options) { o.SyncAlways = true }, false, "", journal.SyncAlways},
		"not monitored": {func(o *server.Options) { o.HTTPPort = 0 }, true, "", journal.SyncUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := startServer(t, func(o *server.Options) {
				o.ServerName, o.SyncInterval, o.HTTPHost, o.HTTPPort = "one", 2*time.Minute, "127.0.0.1", -1
				c.change(o)
			})
			options := jetstream.NATS{URL: s.ClientURL(), Replicas: 1, AcceptLazySync: c.accept}
			if s.MonitorAddr() != nil {
				options.Monitor = "http://" + s.MonitorAddr().String()
			}
			if c.interval != "" {
				_, err := jetstream.Open(within(t), jetstream.Options{NATS: &options})
				require.ErrorIs(t, err, servers.ErrLazySync)
				assert.False(t, jetstream.Transient(err))
				assert.Contains(t, err.Error(), "one has sync_interval "+c.interval)
				assert.Contains(t, err.Error(), "jetstream { sync_interval: always }")
				assert.Contains(t, err.Error(), "--accept-lazy-sync")
				return
			}
			servers := serversOf(t, open(t, jetstream.Options{NATS: &options}))
			require.Len(t, servers, 1)
			assert.Equal(t, "one", servers[0].Name)
			assert.Equal(t, server.VERSION, servers[0].Version)
			assert.Equal(t, c.sync, servers[0].Sync)
		})
	}
}

func TestServersWithUnknownSyncAreRejected(t *testing.T) {
	s, _ := startServer(t, func(o *server.Options) { o.SyncAlways = true })
	options := jetstream.NATS{URL: s.ClientURL(), Replicas: 1}
	_, err := jetstream.Open(within(t), jetstream.Options{NATS: &options})
	require.ErrorIs(t, err, servers.ErrUnknownSync)
	assert.False(t, jetstream.Transient(err))
	assert.ErrorContains(t, err, "Set nats.monitor to")
	assert.ErrorContains(t, err, "nats.acceptLazySync: true")

	// A monitoring address that does not respond is accepted, because its server may be stopped.
	options.Monitor = "http://127.0.0.1:1"
	open(t, jetstream.Options{NATS: &options})
}

// TestServersAreQueriedThroughTheSystemAccount checks a cluster that only gives the system account
// access to the settings of its servers.
func TestServersAreQueriedThroughTheSystemAccount(t *testing.T) {
	path := filepath.Join(t.TempDir(), "server.conf")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, `
server_name: one
listen: 127.0.0.1:-1
jetstream { store_dir: %q }
system_account: SYS
accounts {
  SYS { exports: [{service: "$SYS.REQ.SERVER.PING.VARZ", response_type: stream}] }
  APP {
    jetstream: enabled
    users: [{user: app, password: secret}]
    imports: [{service: {account: SYS, subject: "$SYS.REQ.SERVER.PING.VARZ"}}]
  }
}`, t.TempDir()), 0o600))
	o, err := server.ProcessConfigFile(path)
	require.NoError(t, err)
	s, _ := startServer(t, func(to *server.Options) {
		o.NoLog, o.NoSigs = true, true
		*to = *o
	})
	url := strings.Replace(s.ClientURL(), "//", "//app:secret@", 1)
	_, err = jetstream.Open(within(t), jetstream.Options{NATS: &jetstream.NATS{URL: url, Replicas: 1}})
	require.ErrorIs(t, err, servers.ErrLazySync)
}

func TestOldServersAreRejected(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go greet(c, "2.15.0")
		}
	}()
	_, err = jetstream.Open(within(t), jetstream.Options{NATS: &jetstream.NATS{URL: "nats://" + l.Addr().String()}})
	require.ErrorContains(t, err, "has version 2.15.0; 2.15.1 or newer is required: older servers can lose calls")
}

// greet is a server that only sends its greeting.
func greet(c net.Conn, version string) {
	defer func() { _ = c.Close() }()
	_, _ = fmt.Fprintf(c, `INFO {"server_id":"old","server_name":"old","version":%q,"headers":true,"max_payload":8388608}`+"\r\n", version)
	for lines := bufio.NewScanner(c); lines.Scan(); {
		if lines.Text() == "PING" {
			_, _ = fmt.Fprint(c, "PONG\r\n")
		}
	}
}

// TestMissingReplicasAreReported checks that replicas that are offline, or on a server without
// JetStream, are reported until they are current again.
func TestMissingReplicasAreReported(t *testing.T) {
	if testing.Short() {
		t.Skip("slow: three servers")
	}
	t.Parallel()
	c := startCluster(t)
	j := open(t, jetstream.Options{NATS: &jetstream.NATS{URL: c.url()}})
	states := func() (all []string, err error) {
		health, err := j.Health(within(t))
		for _, r := range health.Replicas {
			all = append(all, r.Server+" "+r.State)
		}
		slices.Sort(all)
		return slices.Compact(all), err
	}
	comes := func(want ...string) {
		t.Helper()
		require.Eventually(t, func() bool {
			if len(want) > 0 { // otherwise, the journal inspects the servers itself
				j.InspectServers()
			}
			now, err := states()
			return err == nil && slices.Equal(now, want)
		}, 2*patience, 100*time.Millisecond)
	}
	c.stop(2)
	comes("n3 " + journal.ReplicaOffline)
	c.nodes[2].NoJetStream = true
	c.start(2)
	comes("n3 " + journal.ReplicaNoJetStream)
	c.stop(2)
	c.nodes[2].NoJetStream = false
	c.start(2)
	comes()
}
