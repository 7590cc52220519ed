package e2e

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
)

// natsServerArg makes the test's own binary run a NATS server, so that there is
// one that can be killed, and none needs to be installed.
const natsServerArg = "run-nats-server"

// A natsNode is one server of a cluster.
type natsNode struct {
	name, dir, client, routes string
	peers                     []string // the routes of all
	process                   *harness.Process
}

// newCluster starts three servers on loopback.
func newCluster(t *testing.T) []*natsNode {
	t.Helper()
	nodes := make([]*natsNode, 3)
	var routes []string
	for i := range nodes {
		nodes[i] = &natsNode{name: fmt.Sprintf("n%d", i+1), dir: t.TempDir()}
		var err error
		nodes[i].client, err = harness.FreeAddress()
		require.NoError(t, err)
		nodes[i].routes, err = harness.FreeAddress()
		require.NoError(t, err)
		routes = append(routes, "nats://"+nodes[i].routes)
	}
	for _, n := range nodes {
		n.peers = routes
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
	n.process, err = harness.Start(self, []string{natsServerArg, n.name, n.dir, n.client, n.routes, strings.Join(n.peers, ",")}, nil)
	require.NoError(t, err)
}

// urls are where clients connect to.
func urls(nodes []*natsNode) string {
	var all []string
	for _, n := range nodes {
		all = append(all, "nats://"+n.client)
	}
	return strings.Join(all, ",")
}

// awaitCluster waits until the servers have chosen a leader.
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

// caughtUp waits until every server has all of every stream.
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

// runNATSServer is the process of one server.
func runNATSServer(args []string) {
	if err := serveNATS(args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serveNATS(args []string) error {
	name, dir, client, routes, peers := args[0], args[1], args[2], args[3], args[4]
	config := fmt.Sprintf(`
server_name: %s
listen: %s
jetstream { store_dir: %q, sync_interval: always, max_mem: 64MB, max_file: 8GB }
cluster { name: e2e, listen: %s, routes: [%s] }
`, name, client, dir, routes, peers)
	path := dir + "/server.conf"
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		return err
	}
	options, err := server.ProcessConfigFile(path)
	if err != nil {
		return err
	}
	options.NoSigs = true
	s, err := server.NewServer(options)
	if err != nil {
		return err
	}
	s.ConfigureLogger()
	s.Start()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	<-stop
	s.Shutdown()
	s.WaitForShutdown()
	return nil
}
