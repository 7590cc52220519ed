// Package natsnode runs a server of a NATS cluster in the process that asks for it, for
// tests and measurements: none needs to be installed, and one can be killed.
package natsnode

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
)

// A Node is one server of a cluster. It syncs what it stores before it answers, and
// answers every client that asks how it is set up.
type Node struct {
	Name   string
	Dir    string   // is its own
	Client string   // the address that clients connect to
	Routes string   // the address that the other servers connect to
	Peers  []string // the routes of all, as URLs
	// NoJetStream starts it without JetStream, as a server starts that cannot read its
	// account of the cluster.
	NoJetStream bool
}

// New returns the nodes of a cluster, in directories below dir, on addresses of the
// loopback interface that are free.
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

// URLs returns where clients of the cluster connect to.
func URLs(nodes []*Node) string {
	var all []string
	for _, n := range nodes {
		all = append(all, "nats://"+n.Client)
	}
	return strings.Join(all, ",")
}

// Args returns what FromArgs reads.
func (n *Node) Args() []string {
	return []string{n.Name, n.Dir, n.Client, n.Routes, strings.Join(n.Peers, ",")}
}

// FromArgs returns the node whose Args these are.
func FromArgs(args []string) (*Node, error) {
	if len(args) != 5 {
		return nil, fmt.Errorf("natsnode: %d arguments instead of 5", len(args))
	}
	return &Node{Name: args[0], Dir: args[1], Client: args[2], Routes: args[3], Peers: strings.Split(args[4], ",")}, nil
}

// Serve runs the server until ctx ends. It makes the directory where there is none.
func (n *Node) Serve(ctx context.Context) error {
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
