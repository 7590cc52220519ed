// Package natsnode runs a NATS server of a cluster in the current process, for tests and
// benchmarks. Tests that run this process can kill the server, and need no installed server.
package natsnode

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
)

// A Node is a server of a cluster. The server syncs every write, and clients can read its
// settings.
type Node struct {
	Name   string
	Dir    string   // directory that only this node uses
	Client string   // listen address for clients
	Routes string   // listen address for other servers
	Peers  []string // route URLs of all nodes
	// NoJetStream disables JetStream, in the same way as a server that cannot read its cluster
	// state.
	NoJetStream bool
}

// New returns the nodes of a cluster, with directories below dir and free loopback addresses.
func New(dir string, servers int) ([]*Node, error) {
	nodes := make([]*Node, servers)
	var peers []string
	for i := range nodes {
		n := &Node{Name: fmt.Sprintf("n%d", i+1)}
		n.Dir = filepath.Join(dir, n.Name)
		var err error
		if n.Client, err = harness.FreeAddress(); err != nil {
			return nil, err
		}
		if n.Routes, err = harness.FreeAddress(); err != nil {
			return nil, err
		}
		peers = append(peers, "nats://"+n.Routes)
		nodes[i] = n
	}
	for _, n := range nodes {
		n.Peers = peers
	}
	return nodes, nil
}

// URLs returns the comma-separated URLs for clients.
func URLs(nodes []*Node) string {
	var all []string
	for _, n := range nodes {
		all = append(all, "nats://"+n.Client)
	}
	return strings.Join(all, ",")
}

// JSON returns the node as JSON for Run.
func (n *Node) JSON() string {
	text, _ := json.Marshal(n) // strings can always be marshaled
	return string(text)
}

// Run runs the server of a node, which JSON has returned, until the process receives SIGTERM.
func Run(node string) error {
	var n Node
	if err := json.Unmarshal([]byte(node), &n); err != nil {
		return fmt.Errorf("natsnode: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return n.serve(ctx)
}

// serve runs the server until ctx ends. It creates the directory if necessary.
func (n *Node) serve(ctx context.Context) error {
	jetstream := fmt.Sprintf("jetstream { store_dir: %q, sync_interval: always, max_mem: 64MB, max_file: 1TB }", n.Dir)
	if n.NoJetStream {
		jetstream = ""
	}
	config := fmt.Sprintf(`
server_name: %s
listen: %s
%s
cluster { name: e2e, listen: %s, routes: [%s] }
system_account: SYS
no_auth_user: client
accounts {
  SYS { exports: [{service: "$SYS.REQ.SERVER.PING.VARZ", response_type: stream}] }
  CLIENTS {
    jetstream: enabled
    users: [{user: client, password: client}]
    imports: [{service: {account: SYS, subject: "$SYS.REQ.SERVER.PING.VARZ"}}]
  }
}
`, n.Name, n.Client, jetstream, n.Routes, strings.Join(n.Peers, ","))
	if err := os.MkdirAll(n.Dir, 0o700); err != nil {
		return err
	}
	path := filepath.Join(n.Dir, "server.conf")
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
	<-ctx.Done()
	s.Shutdown()
	s.WaitForShutdown()
	return nil
}
