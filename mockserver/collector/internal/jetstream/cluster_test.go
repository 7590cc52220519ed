package jetstream_test

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjetstream "github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/natsnode"
)

// serverEnv makes this test binary run as a NATS server. Its value is the JSON of a natsnode.Node.
const serverEnv = "JOURNAL_TEST_SERVER"

// A cluster is three NATS servers in their own processes.
type cluster struct {
	t       testing.TB
	nodes   []*natsnode.Node
	servers []*harness.Process // nil if stopped
}

func startCluster(t testing.TB) *cluster {
	t.Helper()
	nodes, err := natsnode.New(t.TempDir(), 3)
	ok(t, err)
	c := &cluster{t: t, nodes: nodes, servers: make([]*harness.Process, len(nodes))}
	t.Cleanup(func() {
		for i := range c.servers {
			c.kill(i)
		}
	})
	for i := range c.nodes {
		c.start(i)
	}
	c.ready()
	return c
}

func (c *cluster) url() string { return natsnode.URLs(c.nodes) }

func (c *cluster) start(i int) {
	c.t.Helper()
	var err error
	c.servers[i], err = harness.Start(os.Args[0], []string{"-test.run=^$"}, func(cmd *exec.Cmd) {
		cmd.Env = append(os.Environ(), serverEnv+"="+c.nodes[i].JSON())
	})
	ok(c.t, err)
}

func (c *cluster) kill(i int) {
	if c.servers[i] != nil {
		c.servers[i].Kill()
		c.servers[i] = nil
	}
}

// stop shuts down a server. Unlike after kill, the other servers know at once that it is offline.
func (c *cluster) stop(i int) {
	_ = c.servers[i].Stop() // the test binary may report an error
	c.servers[i] = nil
}

// ready waits until every stream has a leader and current replicas.
func (c *cluster) ready() {
	c.t.Helper()
	nc, err := nats.Connect(c.url(), nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true), nats.ReconnectWait(50*time.Millisecond))
	ok(c.t, err)
	defer nc.Close()
	js, err := natsjetstream.New(nc)
	ok(c.t, err)
	behind := "the cluster does not respond"
	for deadline := time.Now().Add(2 * patience); behind != ""; time.Sleep(50 * time.Millisecond) { // there is no event for changes of streams
		if time.Now().After(deadline) {
			c.t.Fatal("the cluster is not ready: ", behind)
		}
		behind = c.behind(js)
	}
}

// behind describes streams that are not current.
func (c *cluster) behind(js natsjetstream.JetStream) string {
	ctx, cancel := contextUntil(c.t, time.Now().Add(2*time.Second))
	defer cancel()
	info, err := js.AccountInfo(ctx)
	if err != nil {
		return err.Error()
	}
	seen := 0
	lister := js.ListStreams(ctx)
	for s := range lister.Info() {
		seen++
		if s.Cluster == nil || s.Cluster.Leader == "" || len(s.Cluster.Replicas) != 2 {
			return s.Config.Name + " has no leader"
		}
		for _, r := range s.Cluster.Replicas {
			if !r.Current || r.Offline {
				return fmt.Sprintf("%s on %s is not up to date", s.Config.Name, r.Name)
			}
		}
	}
	if lister.Err() != nil {
		return lister.Err().Error()
	}
	if seen < info.Streams {
		return "streams are missing"
	}
	return ""
}

// TestClusterSurvivesServerLoss alternately kills servers and collectors under load. The full
// length is JOURNAL_CLUSTER_KILLS=6.
func TestClusterSurvivesServerLoss(t *testing.T) {
	if testing.Short() {
		t.Skip("slow: three servers and two collectors")
	}
	t.Parallel()
	kills := times("JOURNAL_CLUSTER_KILLS", 1)
	began := time.Now()
	phase := func(what string) { t.Logf("%6.1f s: %s", time.Since(began).Seconds(), what) }
	c := startCluster(t)
	phase("the cluster is ready")
	tally := newTally(t)
	config := childConfig{
		Options: jetstream.Options{NATS: &jetstream.NATS{URL: c.url()}},
		Senders: 2, Batch: 5, Rate: 200 * time.Millisecond, Slow: time.Millisecond,
	}
	var children [2]*process
	var reports []chan struct{} // closed when a child's output is processed
	start := func(i, round int) {
		config.Name = fmt.Sprintf("c%d.%d", i, round)
		children[i] = startChild(t, tally, config)
		read := make(chan struct{})
		reports = append(reports, read)
		go func(p *process) {
			p.until("")
			close(read)
		}(children[i])
	}
	start(0, 0)
	start(1, 0)
	phase("the collectors are ready")
	for round := range kills {
		server, collector := round%3, round%2
		c.kill(server)
		_ = children[collector].cmd.Process.Kill()
		_ = children[collector].cmd.Wait()
		time.Sleep(time.Second) // the other servers continue
		if round == 0 {
			ok(t, os.RemoveAll(c.nodes[server].Dir)) // the server starts without data
		}
		c.start(server)
		start(collector, round+1)
		phase("the collector works again")
		c.ready()
		phase("the server is up to date")
	}
	phase("to the end")
	for _, p := range children {
		ok(t, p.stdin.Close())
	}
	for _, p := range children {
		ok(t, p.cmd.Wait())
	}
	phase("drained")
	for _, r := range reports {
		<-r
	}
	t.Logf("%d calls accepted, %d repeats", len(tally.accepted), tally.check(t))
}
