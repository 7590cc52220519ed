package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
)

// A cluster contains the flags for the measurement of a cluster.
type cluster struct {
	servers, collectors, names, sources int
	deliver                             bool
}

// A node is a NATS server.
type node struct {
	*harness.Process
	client, routes, monitor string // host and port of each service
}

// onCluster measures collectors that use NATS servers. The servers sync each message.
func (b *bench) onCluster() error {
	nodes, stop, err := b.startNodes(b.cluster.servers)
	if err != nil {
		return err
	}
	defer stop()
	r, err := newReceiver()
	if err != nil {
		return err
	}
	defer r.refuse()
	config := "limits: {queue: 1GB}\nsources:\n"
	for i := range b.cluster.sources {
		config += fmt.Sprintf("- {name: source%d, writeKey: load%[1]d}\n", i)
	}
	if b.cluster.deliver {
		config += "destinations:\n" + hook("hook", r.url())
	}
	var collectors []*harness.Collector
	defer func() {
		for _, c := range collectors {
			c.Kill()
		}
	}()
	for i := range b.cluster.collectors {
		store := "data: " + filepath.Join(b.dir, fmt.Sprint("data", i))
		if len(nodes) > 0 {
			store = natsConfig(nodes, fmt.Sprint("load", i%b.cluster.names))
		}
		c, err := b.serve(store + "\n" + config)
		if err != nil {
			return err
		}
		collectors = append(collectors, c)
	}
	return b.compareCluster(nodes, collectors)
}

// natsConfig returns the configuration of a collector that uses NATS servers.
func natsConfig(nodes []*node, name string) string {
	var urls, monitors []string
	for _, n := range nodes {
		urls, monitors = append(urls, "nats://"+n.client), append(monitors, "http://"+n.monitor)
	}
	return fmt.Sprintf("nats: {url: '%s', monitor: '%s', name: %s}", strings.Join(urls, ","), strings.Join(monitors, ","), name)
}

// compareCluster sends calls to the collectors and prints the cost of a call.
func (b *bench) compareCluster(nodes []*node, collectors []*harness.Collector) error {
	groups := make([][]*harness.Process, 2)
	for _, n := range nodes {
		groups[0] = append(groups[0], n.Process)
	}
	for _, c := range collectors {
		groups[1] = append(groups[1], c.Process)
	}
	before, err := usages(groups)
	if err != nil {
		return err
	}
	stored, err := messages(nodes)
	if err != nil {
		return err
	}
	begin := time.Now()
	sent, err := b.sendAll(collectors)
	if err != nil {
		return err
	}
	took := time.Since(begin)
	for _, c := range collectors {
		if b.cluster.deliver {
			if err := b.awaitDelivered(c); err != nil {
				return err
			}
		}
	}
	after, err := usages(groups)
	if err != nil {
		return err
	}
	fmt.Printf("\n%s calls of %d bytes, %d per request: %.0f calls/s; all stored or delivered after %v\n\n| per call | CPU, µs | bytes read | written | to disk |\n|---|--:|--:|--:|--:|\n",
		grouped(sent), b.calls.size, b.calls.batch, float64(sent)/took.Seconds(), time.Since(begin).Round(time.Millisecond))
	for i, name := range []string{"NATS servers", "collectors"} {
		if len(groups[i]) == 0 {
			continue
		}
		each := func(get func(harness.Usage) int64) float64 {
			return float64(get(after[i])-get(before[i])) / float64(sent)
		}
		fmt.Printf("| %s | %.2f | %.0f | %.0f | %.0f |\n", name, each(func(u harness.Usage) int64 { return u.CPU.Nanoseconds() })/1e3,
			each(func(u harness.Usage) int64 { return u.In }), each(func(u harness.Usage) int64 { return u.Out }), each(func(u harness.Usage) int64 { return u.Written }))
	}
	more, err := messages(nodes)
	if err != nil {
		return err
	}
	for _, stream := range []string{"CALLS", "OUTCOMES", "RETRY", "FAILED", "ATTEMPTS", "STATE"} {
		if n := more[stream] - stored[stream]; n > 0 {
			fmt.Printf("\n%s: %.1f messages for 1,000 calls, each synced on every server\n", stream, 1000*float64(n)/float64(sent))
		}
	}
	return nil
}

// sendAll sends calls to all collectors at the same time. It returns the number of accepted
// calls.
func (b *bench) sendAll(collectors []*harness.Collector) (sent int64, err error) {
	var mu sync.Mutex // guards sent and err
	var sending sync.WaitGroup
	for i, c := range collectors {
		for source := range b.cluster.sources {
			l := b.calls.load(c.URL)
			l.Run, l.WriteKey = byte(i), fmt.Sprint("load", source)
			l.Rate = b.rates(0)[0]
			sending.Go(func() {
				n, failed := b.sendFor(l, b.runTime(5*time.Second))
				mu.Lock()
				defer mu.Unlock()
				sent, err = sent+n, errors.Join(err, failed)
			})
		}
	}
	sending.Wait()
	if sent == 0 {
		err = errors.Join(err, errors.New("no calls were accepted"))
	}
	return sent, err
}

// startNodes starts the servers of a cluster, and returns a function that stops them. It first builds
// nats-server in the version that the collector embeds.
func (b *bench) startNodes(servers int) (nodes []*node, stop func(), err error) {
	stop = func() {
		for _, n := range nodes {
			if n.Process != nil {
				n.Kill()
			}
		}
	}
	if servers == 0 {
		return nodes, stop, nil
	}
	defer func() {
		if err != nil {
			stop()
		}
	}()
	program := filepath.Join(b.dir, "nats-server")
	if out, err := exec.CommandContext(b.ctx, "go", "build", "-o", program, "github.com/nats-io/nats-server/v2").CombinedOutput(); err != nil {
		return nodes, stop, fmt.Errorf("building nats-server: %w\n%s", err, out)
	}
	var routes []string
	for range servers {
		n := &node{}
		for _, address := range []*string{&n.client, &n.routes, &n.monitor} {
			if *address, err = harness.FreeAddress(); err != nil {
				return nodes, stop, err
			}
		}
		nodes, routes = append(nodes, n), append(routes, "nats://"+n.routes)
	}
	for i, n := range nodes {
		dir := filepath.Join(b.dir, fmt.Sprint("nats", i))
		config := fmt.Sprintf("server_name: n%d\nlisten: %s\nhttp: %s\njetstream { store_dir: %q, sync_interval: always, max_mem: 64MB, max_file: 1TB }\ncluster { name: bench, listen: %s, routes: [%s] }\n",
			i, n.client, n.monitor, dir, n.routes, strings.Join(routes, ","))
		if err := os.WriteFile(dir+".conf", []byte(config), 0o600); err != nil {
			return nodes, stop, err
		}
		if n.Process, err = harness.Start(program, []string{"--config", dir + ".conf"}, nil); err != nil {
			return nodes, stop, err
		}
	}
	return nodes, stop, nil
}

// usages returns the sum of the usage of each group of processes.
func usages(groups [][]*harness.Process) ([]harness.Usage, error) {
	sums := make([]harness.Usage, len(groups))
	for i, group := range groups {
		for _, p := range group {
			u, err := p.Usage()
			if err != nil {
				return nil, err
			}
			sums[i].CPU += u.CPU
			sums[i].In += u.In
			sums[i].Out += u.Out
			sums[i].Written += u.Written
		}
	}
	return sums, nil
}

// messages returns the number of messages that have been stored in each stream.
func messages(nodes []*node) (map[string]uint64, error) {
	stored := map[string]uint64{}
	for _, n := range nodes {
		res, err := http.Get("http://" + n.monitor + "/jsz?streams=true")
		if err != nil {
			return nil, err
		}
		var server struct {
			Accounts []struct {
				Streams []struct {
					Name  string `json:"name"`
					State struct {
						Last uint64 `json:"last_seq"`
					} `json:"state"`
				} `json:"stream_detail"`
			} `json:"account_details"`
		}
		err = errors.Join(json.NewDecoder(res.Body).Decode(&server), res.Body.Close())
		if err != nil {
			return nil, err
		}
		for _, account := range server.Accounts {
			for _, s := range account.Streams {
				_, kind, _ := strings.Cut(s.Name, "-")
				stored[kind] = max(stored[kind], s.State.Last) // all servers report the same stream
			}
		}
	}
	return stored, nil
}
