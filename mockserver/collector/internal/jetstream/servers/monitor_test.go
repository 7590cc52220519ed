package servers

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
)

// TestStoppedJetStreamIsDetected checks that a server whose JetStream has stopped, for example
// because its disk was full, is not reported as a server with JetStream. Such a server's varz still
// contains the configuration of JetStream.
func TestStoppedJetStreamIsDetected(t *testing.T) {
	s, err := server.NewServer(&server.Options{
		ServerName: "one", Host: "127.0.0.1", Port: -1, HTTPHost: "127.0.0.1", HTTPPort: -1,
		JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
	})
	require.NoError(t, err)
	s.Start()
	defer s.Shutdown()
	require.True(t, s.ReadyForConnections(10*time.Second))
	c := &Cluster{NATS: &NATS{Monitor: "http://" + s.MonitorAddr().String()}}
	enabled := func() bool {
		reports, err := c.query(t.Context())
		require.NoError(t, err)
		require.Len(t, reports, 1)
		require.Equal(t, "one", reports[0].Name)
		return reports[0].JetStream.Config != nil
	}
	require.True(t, enabled())
	require.NoError(t, s.DisableJetStream())
	require.False(t, enabled())
}

// TestFewerReplicasThanConfiguredAreReported checks streams that were created before the setting replicas
// was increased.
func TestFewerReplicasThanConfiguredAreReported(t *testing.T) {
	info := &jetstream.StreamInfo{
		Config:  jetstream.StreamConfig{Name: "analytics-CALLS", Replicas: 1},
		Cluster: &jetstream.ClusterInfo{Leader: "a"},
	}
	require.Empty(t, unhealthy(info, 1))
	require.Equal(t, []journal.Replica{{Stream: "analytics-CALLS", State: journal.ReplicaMissing}}, unhealthy(info, 3))
}
