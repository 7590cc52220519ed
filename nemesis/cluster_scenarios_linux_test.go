package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
	"github.com/seed-45eadc4a/analytics-go/nemesis/disk"
	"github.com/seed-45eadc4a/analytics-go/nemesis/network"
)

// cluster consists of three NATS servers and the collectors that use them, each on its own machine.
// The servers sync each message before they acknowledge it. The rig sends its requests to the first
// collector.
type cluster struct {
	*rig
	lazy       []string // names of servers that acknowledge messages before they sync them
	onDisks    bool     // each server has its own disk
	net        *network.Network
	nodes      []*machine
	collectors []*machine
}

// machine is a host that runs one program of the cluster.
type machine struct {
	*network.Host
	dir     string
	disk    *disk.Disk // the disk that contains dir; nil if the disk cannot fail
	command []string
	env     []string
	process *harness.Process
}

// collector returns the collector on the machine.
func (m *machine) collector() *harness.Collector {
	c := collectorAt(m.Address + ":8765")
	c.Process = m.process
	return c
}

func (m *machine) start() (err error) {
	m.process, err = startProcess(m.Command(m.command...), m.env)
	return err
}

// signal sends a signal to the machine's program.
func (m *machine) signal(s syscall.Signal) error { return syscall.Kill(m.process.Pid(), s) }

// powerCut kills the program, cuts the power of its disk, and mounts the disk with the remaining
// data.
func (m *machine) powerCut() error {
	m.disk.Unplug()
	m.process.Kill()
	return m.disk.PowerCut(disk.LoseSeeded)
}

func newClusterOf(r *rig, collectors int, lazy ...string) *cluster {
	r.Helper()
	return newClusterWith(&cluster{rig: r, lazy: lazy}, collectors)
}

func newClusterWith(c *cluster, collectors int) *cluster {
	r := c.rig
	r.Helper()
	require.NoError(r, network.Supported())
	r.mayStoreTwice = true // collectors do not see immediately which calls others have stored
	names := []string{"n1", "n2", "n3"}
	for i := range collectors {
		names = append(names, fmt.Sprint("c", i+1))
	}
	n, err := network.New(names...)
	require.NoError(r, err)
	c.net = n
	r.Cleanup(func() {
		if r.Failed() {
			r.Logf("%d calls accepted, %d requests refused; %v", r.load.Sent.Load(), r.load.Refused.Load(), r.result.notes)
		}
		r.stopLoad(0)
		for _, m := range append(c.nodes, c.collectors...) {
			if m.process != nil {
				m.process.Kill()
			}
			if r.Failed() && m.process != nil {
				r.Logf("output of %s:\n%s", m.Name, tail(m.process.Log(), 2500))
			}
		}
		assert.NoError(r, n.Close())
		for _, m := range c.nodes {
			if m.disk != nil {
				assert.NoError(r, m.disk.Close())
			}
		}
	})
	r.receiver.url = strings.Replace(r.receiver.url, "127.0.0.1", n.Self(), 1)
	for i, name := range names {
		m := &machine{Host: n.Host(name), dir: r.TempDir()}
		if name[0] == 'n' {
			c.nodes = append(c.nodes, m)
			if c.onDisks {
				m.disk, err = disk.New(disk.Options{Dir: m.dir, FS: []string{"ext4", "xfs"}[r.seed%2], Seed: r.seed + uint64(i)<<32})
				require.NoError(r, err)
			}
			c.configureNode(m)
			require.NoError(r, m.start())
		} else {
			c.collectors = append(c.collectors, m)
			c.configureCollector(m)
		}
	}
	c.await("the servers have formed a cluster", func() bool { return c.leader("") != nil })
	return c
}

func (c *cluster) configureNode(m *machine) {
	c.Helper()
	interval := "always"
	if slices.Contains(c.lazy, m.Name) {
		interval = "1s"
	}
	var routes []string
	for _, peer := range []string{"n1", "n2", "n3"} {
		routes = append(routes, fmt.Sprintf("nats://%s:6222", c.net.Host(peer).Address))
	}
	// Each pair of servers has only one configured route. If both servers create routes at the
	// same time, they can close too many of them and be disconnected for minutes.
	store := m.dir
	if m.disk != nil {
		store = filepath.Join(m.disk.Path(), "store")
	}
	text := fmt.Sprintf(`
server_name: %s
listen: "%s:4222"
http: "%s:8222"
jetstream { store_dir: %q, sync_interval: %s, max_mem: 64MB, max_file: 8GB }
cluster { name: nemesis, pool_size: -1, listen: "%s:6222", routes: [%s] }
`, m.Name, m.Address, m.Address, store, interval, m.Address, strings.Join(routes, ", "))
	path := filepath.Join(m.dir, "server.conf")
	require.NoError(c, os.WriteFile(path, []byte(text), 0o600))
	m.command = []string{binaries.natsServer(c.T), "-c", path}
}

func (c *cluster) configureCollector(m *machine) {
	c.Helper()
	var urls, monitors []string
	for _, n := range c.nodes {
		urls = append(urls, "nats://"+n.Address+":4222")
		monitors = append(monitors, "http://"+n.Address+":8222")
	}
	// This sets the address and directory in the configuration of the new collector.
	c.address, c.dir = m.Address+":8765", m.dir
	c.settings = fmt.Sprintf("nats: {url: %q, monitor: %q}\nlimits: {queue: 1GB}", strings.Join(urls, ","), strings.Join(monitors, ","))
	m.command = []string{c.binary, "serve", "--config", c.configure()}
}

// startAll starts all collectors at the same time. The load is distributed to all of them.
func (c *cluster) startAll() {
	c.Helper()
	var starting sync.WaitGroup
	for _, m := range c.collectors {
		starting.Go(func() { assert.NoError(c, m.start()) })
	}
	starting.Wait()
	c.load.URLs = nil
	for _, m := range c.collectors {
		c.awaitReady(m)
		c.load.URLs = append(c.load.URLs, m.collector().URL)
	}
	c.address = c.collectors[0].Address + ":8765"
}

func (c *cluster) awaitReady(m *machine) {
	c.Helper()
	require.NoError(c, m.collector().AwaitReady(patience), "%s: %s", m.Name, tail(m.process.Log(), 3000))
}

// loadedCluster starts a cluster with the given number of collectors, and a load.
func loadedCluster(r *rig, collectors int) *cluster {
	c := newClusterOf(r, collectors)
	c.startAll()
	c.begin(300)
	return c
}

// leader returns the server that leads a stream. If stream is empty, it returns the leader of the
// cluster. It returns nil if there is no leader.
func (c *cluster) leader(stream string) *machine {
	for _, n := range c.nodes {
		var answer struct {
			Meta struct {
				Leader string `json:"leader"`
				Size   int    `json:"cluster_size"`
			} `json:"meta_cluster"`
			Accounts []struct {
				Streams []struct {
					Name    string
					Cluster struct{ Leader string }
				} `json:"stream_detail"`
			} `json:"account_details"`
		}
		if getJSON("http://"+n.Address+":8222/jsz?accounts=true&streams=true", &answer) != nil {
			continue
		}
		name := answer.Meta.Leader
		if answer.Meta.Size < len(c.nodes) {
			continue
		}
		if stream != "" {
			name = ""
		}
		for _, a := range answer.Accounts {
			for _, s := range a.Streams {
				if stream != "" && strings.HasSuffix(s.Name, stream) && s.Cluster.Leader != "" {
					name = s.Cluster.Leader
				}
			}
		}
		for _, m := range c.nodes {
			if m.Name == name {
				return m
			}
		}
	}
	return nil
}

func getJSON(url string, answer any) error {
	client := http.Client{Timeout: 5 * time.Second}
	res, err := client.Get(url)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	return json.NewDecoder(res.Body).Decode(answer)
}

// deliveredBy returns the number of calls that a collector itself has delivered. If the number is
// unknown, it returns 0.
func (c *cluster) deliveredBy(m *machine) float64 {
	metrics, _ := m.collector().Metrics(c.Context())
	return metrics[`collector_deliveries_total{destination="hook",result="delivered"}`]
}

// shared waits until every collector delivers calls. It records how long this takes.
func (c *cluster) shared() {
	c.Helper()
	begin := time.Now()
	for _, m := range c.collectors {
		before := c.deliveredBy(m)
		c.await(m.Name+" delivers calls", func() bool { return c.deliveredBy(m) > before })
	}
	c.result.note("the work was shared after %v", time.Since(begin).Round(100*time.Millisecond))
}

// end finishes the round and verifies the ledger on each collector.
func (c *cluster) end() {
	c.Helper()
	c.finish()
	for _, m := range c.collectors {
		c.address = m.Address + ":8765"
		c.verify()
	}
}

// leaderKilled kills the server that leads the stream CALLS.
func leaderKilled(r *rig) {
	c := loadedCluster(r, 2)
	for range 2 {
		leader := c.leader("-CALLS")
		require.NotNil(c, leader)
		leader.process.Kill()
		c.sleep(500*time.Millisecond, 2*time.Second)
		require.NoError(c, leader.start())
		c.progress(300)
		c.shared()
	}
	c.end()
}

// clusterPowerCuts cuts the power of one server, and then of all servers at the same time.
func clusterPowerCuts(r *rig) {
	c := newClusterWith(&cluster{rig: r, onDisks: true}, 2)
	c.startAll()
	c.begin(300)
	for _, cut := range [][]*machine{{c.nodes[c.random.IntN(3)]}, c.nodes} {
		var cutting sync.WaitGroup
		for _, m := range cut {
			cutting.Go(func() { assert.NoError(c, m.powerCut()) })
		}
		cutting.Wait()
		c.sleep(0, 2*time.Second)
		for _, m := range cut {
			require.NoError(c, m.start())
			c.sleep(0, time.Second)
		}
		c.progress(300)
		c.shared()
	}
	c.end()
}

// replicatedFiles contains patterns for the files of a server in a cluster. These are the files of
// streams, and the Raft logs and snapshots of stream replicas and of the cluster.
var replicatedFiles = append([]string{
	"$SYS/_js_/*/msgs/*.blk",
	"$SYS/_js_/*/snapshots/*",
	"$SYS/_js_/*/*.idx",
	"$SYS/_js_/_meta_/*/*",
}, storeFiles[:len(storeFiles)-1]...)

// stored returns the non-empty files of a server that match a pattern. Patterns are in storeFiles
// and replicatedFiles.
func (m *machine) stored(r *rig, pattern string) []string {
	r.Helper()
	pattern = strings.TrimPrefix(pattern, "jetstream/")
	return regularFiles(r, filepath.Join(m.disk.Path(), "store", "jetstream", pattern))
}

// damage changes one bit in a file of a server, or truncates a file. The server must be stopped.
func (c *cluster) damage(m *machine, truncate bool) {
	c.Helper()
	var files []string
	for i := 0; len(files) == 0; i++ {
		files = m.stored(c.rig, replicatedFiles[(int(c.seed)+i)%len(replicatedFiles)])
	}
	path := files[c.random.IntN(len(files))]
	b, err := os.ReadFile(path)
	require.NoError(c, err)
	at := c.random.IntN(len(b))
	kind := "bit changed"
	if truncate {
		kind, b = "cut off", b[:at]
	} else {
		b[at] ^= 1 << c.random.IntN(8)
	}
	require.NoError(c, os.WriteFile(path, b, 0o600))
	name, err := filepath.Rel(filepath.Join(m.disk.Path(), "store", "jetstream"), path)
	require.NoError(c, err)
	c.result.note("%s %s: %s at byte %d", m.Name, name, kind, at)
}

// minorityDamaged damages a file of a stopped server. It then pauses the other two servers in turn,
// so that every majority includes the damaged server, and cuts the power of all servers. Every call
// must be delivered before the damaged server is replaced. If verify fails before that, it must
// report the damage.
func minorityDamaged(truncate bool) func(r *rig) {
	return func(r *rig) {
		c := newClusterWith(&cluster{rig: r, onDisks: true}, 2)
		c.startAll()
		require.NoError(c, c.ask(http.MethodPost, "/destinations/hook/pause", nil, nil))
		c.begin(600)
		bad := c.nodes[c.random.IntN(3)]
		if c.random.IntN(2) == 0 {
			require.NoError(c, bad.powerCut())
		} else {
			require.NoError(c, bad.process.Stop()) // a server writes its snapshots when it stops
		}
		c.damage(bad, truncate)
		require.NoError(c, bad.start())
		c.progress(300)
		for _, m := range c.nodes {
			if m == bad {
				continue
			}
			require.NoError(c, m.signal(syscall.SIGSTOP))
			c.sleep(3*time.Second, 6*time.Second)
			require.NoError(c, m.signal(syscall.SIGCONT))
			c.progress(300)
		}
		var cutting sync.WaitGroup
		for _, m := range c.nodes {
			cutting.Go(func() { assert.NoError(c, m.powerCut()) })
		}
		cutting.Wait()
		for _, m := range c.nodes {
			require.NoError(c, m.start())
		}
		c.progress(300)
		c.await("the destination is resumed", func() bool { return c.ask(http.MethodPost, "/destinations/hook/resume", nil, nil) == nil })
		c.stopLoad(patience)
		c.settle(0)
		for _, m := range c.collectors { // each collector reads the data of one server, which the cluster chooses
			if out, err := c.verifyAt(m.Address + ":8765"); err != nil {
				require.Contains(c, out, "cannot be read")
				c.result.note("verify: %s", strings.TrimSpace(out))
			}
		}
		c.replace(bad)
		c.end()
	}
}

// replace replaces a server by one with an empty directory, as docs/cluster.md describes. It waits
// until the new server has copied all data from the others.
func (c *cluster) replace(m *machine) {
	c.Helper()
	m.process.Kill()
	require.NoError(c, os.RemoveAll(filepath.Join(m.disk.Path(), "store")))
	require.NoError(c, m.start())
	c.await("all replicas are up to date", func() bool { return c.upToDate(m) })
}

// upToDate reports whether a server has the latest data of every stream.
func (c *cluster) upToDate(m *machine) bool {
	client := http.Client{Timeout: 5 * time.Second}
	res, err := client.Get("http://" + m.Address + ":8222/healthz")
	if err != nil {
		return false
	}
	defer func() { _ = res.Body.Close() }()
	return res.StatusCode == http.StatusOK
}

// nodeCutOff disconnects a server from all others, in one direction or both.
func nodeCutOff(r *rig) {
	c := loadedCluster(r, 2)
	node := c.nodes[c.random.IntN(len(c.nodes))]
	if c.random.IntN(2) == 0 {
		node = c.leader("-CALLS")
		require.NotNil(c, node)
	}
	kind := c.random.IntN(3)
	c.result.note("cut off: %s", [...]string{"wholly", "says nothing", "hears nothing"}[kind])
	for _, other := range append(c.nodes, c.collectors...) {
		if other == node {
			continue
		}
		if kind != 2 {
			c.net.Cut(node.Host, other.Host)
		}
		if kind != 1 {
			c.net.Cut(other.Host, node.Host)
		}
	}
	c.sleep(2*time.Second, 6*time.Second)
	c.net.Heal()
	c.progress(300)
	c.shared()
	c.end()
}

// collectorCutOff disconnects a collector from the servers. The collector must refuse calls, and
// another collector must take over its work.
func collectorCutOff(r *rig) {
	c := loadedCluster(r, 2)
	isolated := c.collectors[c.random.IntN(2)]
	c.net.Isolate(isolated.Host)
	begin := time.Now()
	client := &http.Client{Timeout: patience}
	c.await("the isolated collector responds with 503", func() bool {
		return harness.Post(c.Context(), client, isolated.collector().URL+"/v1/track", "load", []byte(`{"event":"probe","userId":"u","messageId":"probe"}`)) == http.StatusServiceUnavailable
	})
	assert.Less(c, time.Since(begin), 5*time.Second)
	c.own++ // the refused call may have been stored
	c.result.note("status 503 after %v", time.Since(begin).Round(100*time.Millisecond))
	c.sleep(time.Second, 4*time.Second)
	c.progress(300)
	c.net.Heal()
	c.awaitReady(isolated)
	c.shared()
	c.end()
}

// startedTogether starts three collectors at the same time on a new cluster.
func startedTogether(r *rig) {
	c := loadedCluster(r, 3)
	c.shared()
	c.end()
}

// lazyRefused uses a server that acknowledges messages before it syncs them. A collector must refuse
// to start with it unless --accept-lazy-sync is set.
func lazyRefused(r *rig) {
	lazy := []string{"n1", "n2", "n3"}[r.random.IntN(3)]
	c := newClusterOf(r, 1, lazy)
	for _, n := range c.nodes {
		c.await(n.Name+" reports its configuration", func() bool { return getJSON("http://"+n.Address+":8222/varz", &struct{}{}) == nil })
	}
	m := c.collectors[0]
	require.NoError(c, m.start())
	c.await("the collector refuses to start", m.process.Ended)
	assert.Contains(c, m.process.Log(), lazy+" has sync_interval 1s")
	assert.Contains(c, m.process.Log(), "--accept-lazy-sync")
	m.command = append(m.command, "--accept-lazy-sync")
	c.startAll()
	c.begin(300)
	c.end()
}
