package jetstream_test

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjetstream "github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream"
)

// serverEnv has a process of this test be a NATS server. Its value is a
// serverConfig.
const serverEnv = "JOURNAL_TEST_SERVER"

type serverConfig struct {
	Name          string
	Client, Route int
	Routes        []string
	Dir           string
}

func runServer(config string) {
	var c serverConfig
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		panic(err)
	}
	o := &server.Options{
		ServerName: c.Name, Host: "127.0.0.1", Port: c.Client, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: c.Dir, SyncAlways: true, JetStreamMaxStore: 1 << 40,
		Cluster: server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: c.Route},
	}
	for _, r := range c.Routes {
		u, err := url.Parse(r)
		if err != nil {
			panic(err)
		}
		o.Routes = append(o.Routes, u)
	}
	s, err := server.NewServer(o)
	if err != nil {
		panic(err)
	}
	s.Start()
	s.WaitForShutdown()
}

// A cluster is three NATS servers, each a process of its own.
type cluster struct {
	t       testing.TB
	configs [3]serverConfig
	servers [3]*exec.Cmd
}

func startCluster(t testing.TB) *cluster {
	t.Helper()
	c := &cluster{t: t}
	var routes []string
	for i := range c.configs {
		c.configs[i] = serverConfig{
			Name: fmt.Sprint("s", i), Client: freePort(t), Route: freePort(t), Dir: filepath.Join(t.TempDir(), "data"),
		}
		routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", c.configs[i].Route))
	}
	for i := range c.configs {
		c.configs[i].Routes = routes
		c.start(i)
	}
	t.Cleanup(func() {
		for i := range c.servers {
			c.kill(i)
		}
	})
	c.ready()
	return c
}

// freePort returns a port of the loopback interface that nothing listens on.
func freePort(t testing.TB) int {
	t.Helper()
	address, err := harness.FreeAddress()
	ok(t, err)
	at, err := netip.ParseAddrPort(address)
	ok(t, err)
	return int(at.Port())
}

func (c *cluster) url() string {
	var urls []string
	for _, config := range c.configs {
		urls = append(urls, fmt.Sprintf("nats://127.0.0.1:%d", config.Client))
	}
	return strings.Join(urls, ",")
}

func (c *cluster) start(i int) {
	c.t.Helper()
	text, err := json.Marshal(c.configs[i])
	ok(c.t, err)
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), serverEnv+"="+string(text))
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	ok(c.t, cmd.Start())
	c.servers[i] = cmd
}

func (c *cluster) kill(i int) {
	if cmd := c.servers[i]; cmd != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		c.servers[i] = nil
	}
}

// ready waits until every stream that is there has a leader, and all its servers
// are up to date.
func (c *cluster) ready() {
	c.t.Helper()
	nc, err := nats.Connect(c.url(), nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true), nats.ReconnectWait(50*time.Millisecond))
	ok(c.t, err)
	defer nc.Close()
	js, err := natsjetstream.New(nc)
	ok(c.t, err)
	behind := "the cluster does not answer"
	for deadline := time.Now().Add(2 * patience); behind != ""; time.Sleep(50 * time.Millisecond) { // there is no event to wait for
		if time.Now().After(deadline) {
			c.t.Fatal("the cluster does not get ready: ", behind)
		}
		behind = c.behind(js)
	}
}

// behind tells what is not up to date.
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

// TestAClusterThatLosesServersLosesNothing kills servers and collectors in turn,
// under load. JOURNAL_CLUSTER_KILLS=6 is the full length.
func TestAClusterThatLosesServersLosesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("three servers and two collectors take a while")
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
		Senders: 2, Batch: 20, Rate: 20 * time.Millisecond, Slow: time.Millisecond,
	}
	var children [2]*process
	var reports []chan struct{} // each closed when all is read that a child reported
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
		time.Sleep(time.Second) // the others work on meanwhile
		if round == 0 {
			ok(t, os.RemoveAll(c.configs[server].Dir)) // it begins from scratch
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
