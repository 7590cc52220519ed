package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/natsnode"
)

// natsServerArg makes this binary run a NATS server. Tests can kill this server, and need no
// installed server.
const natsServerArg = "run-nats-server"

// A natsNode is a server of a cluster with its process.
type natsNode struct {
	*natsnode.Node
	process *harness.Process
}

// newCluster starts three servers on loopback.
func newCluster(t *testing.T) []*natsNode {
	t.Helper()
	all, err := natsnode.New(t.TempDir(), 3)
	require.NoError(t, err)
	var nodes []*natsNode
	for _, n := range all {
		nodes = append(nodes, &natsNode{Node: n})
	}
	for _, n := range nodes {
		n.start(t)
	}
	t.Cleanup(func() {
		for _, n := range nodes {
			n.process.Kill()
		}
	})
	awaitCluster(t, nodes)
	return nodes
}

func (n *natsNode) start(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	n.process, err = harness.Start(self, []string{natsServerArg, n.JSON()}, nil)
	require.NoError(t, err)
}

// urls returns the URLs for clients.
func urls(nodes []*natsNode) string {
	var all []*natsnode.Node
	for _, n := range nodes {
		all = append(all, n.Node)
	}
	return natsnode.URLs(all)
}

// awaitCluster waits until the servers have elected a leader.
func awaitCluster(t *testing.T, nodes []*natsNode) {
	t.Helper()
	var last error
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		nc, err := nats.Connect(urls(nodes), nats.Timeout(time.Second))
		if err != nil {
			last = err
			continue
		}
		js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(time.Second))
		require.NoError(t, err)
		_, last = js.AccountInfo(t.Context())
		nc.Close()
		if last == nil {
			return
		}
	}
	t.Fatalf("the servers form no cluster: %v", last)
}

// caughtUp waits until every server has all the data of every stream.
func caughtUp(t *testing.T, nodes []*natsNode) {
	t.Helper()
	nc, err := nats.Connect(urls(nodes))
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	behind := func() (behind []string, err error) {
		streams := js.ListStreams(t.Context())
		for info := range streams.Info() {
			if len(info.Cluster.Replicas) != len(nodes)-1 {
				behind = append(behind, fmt.Sprintf("%s has %d replicas", info.Config.Name, len(info.Cluster.Replicas)+1))
			}
			for _, r := range info.Cluster.Replicas {
				if !r.Current || r.Offline || r.Lag > 0 {
					behind = append(behind, fmt.Sprintf("%s on %s: current %v, offline %v, lag %d", info.Config.Name, r.Name, r.Current, r.Offline, r.Lag))
				}
			}
		}
		return behind, streams.Err()
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		late, err := behind()
		if err == nil && len(late) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not all servers have caught up: %v, %v", late, err)
		}
	}
}

// The NATS servers in deploy/compose.yaml must have the settings that a collector requires.
func TestComposeServersSyncAlways(t *testing.T) {
	t.Parallel()
	config, err := server.ProcessConfigFile(filepath.Join("..", "..", "..", "deploy", "compose", "nats.conf"))
	require.NoError(t, err)
	assert.True(t, config.JetStream)
	assert.True(t, config.SyncAlways)
}

// runNATSServer is the main function for natsServerArg.
func runNATSServer(args []string) {
	if err := natsnode.Run(args[0]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
