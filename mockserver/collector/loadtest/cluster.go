package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/natsnode"
)

func newCluster() *cobra.Command {
	var run clusterRun
	var seconds int
	cmd := newMeasurement("cluster", "What a call costs on three NATS servers with sync_interval: always, and in their collectors", func(ctx context.Context, b *bench) error {
		run.duration = time.Duration(seconds) * time.Second
		return run.measure(ctx, b)
	})
	flags := cmd.Flags()
	flags.IntVar(&seconds, "seconds", 5, "of the run")
	flags.IntVar(&run.collectors, "collectors", 1, "that take calls, each from senders of its own")
	flags.IntVar(&run.names, "names", 1, "nats.name: each has streams, and leaders, of its own, and collectors have them in turns")
	flags.IntVar(&run.servers, "servers", 3, "of NATS; 0: the embedded one of each collector")
	flags.IntVar(&run.sources, "sources", 1, "that send to each collector")
	flags.IntVar(&run.senders, "senders", 8, "of each source, that send at once")
	flags.IntVar(&run.batch, "batch", 100, "calls in a batch")
	flags.IntVar(&run.size, "size", 700, "bytes of a call")
	flags.BoolVar(&run.noise, "noise", false, "calls that do not compress")
	flags.IntVar(&run.rate, "rate", 0, "calls a second of each source to a collector; 0: as many as it takes")
	flags.BoolVar(&run.deliver, "deliver", false, "deliver the calls to one webhook, until none is pending, instead of keeping them")
	return cmd
}

// A clusterRun is what is measured once.
type clusterRun struct {
	duration                   time.Duration
	servers, collectors, names int
	sources, senders           int
	batch, size, rate          int
	noise, deliver             bool
}

// A cost is what processes have used.
type cost struct {
	cpu                 time.Duration
	read, written, disk int64 // bytes: of all reads and writes, sockets and files; of what went to files
}

func (c cost) minus(o cost) cost {
	return cost{c.cpu - o.cpu, c.read - o.read, c.written - o.written, c.disk - o.disk}
}

func (run clusterRun) measure(ctx context.Context, b *bench) error {
	nodes, servers, err := b.startServers(run.servers)
	if err != nil {
		return err
	}
	defer killAll(servers)
	config := "destinations: []\n"
	if run.deliver {
		url, receiver, err := b.nullServer()
		if err != nil {
			return err
		}
		defer receiver.Kill()
		config = forwarding(url)
	}
	sources := "sources:\n"
	for i := range run.sources {
		sources += fmt.Sprintf("- {name: source%d, writeKey: load%[1]d}\n", i)
	}
	var collectors []*harness.Collector
	var processes []*harness.Process
	defer func() { killAll(processes) }()
	for i := range run.collectors {
		store := "data: " + filepath.Join(b.dir, "data"+strconv.Itoa(i))
		if run.servers > 0 {
			store = fmt.Sprintf("nats: {url: '%s', name: load%d}", natsnode.URLs(nodes), i%run.names)
		}
		c, err := b.serve(store+"\nlimits: {queue: 1GB}\n"+sources, config)
		if err != nil {
			return err
		}
		collectors, processes = append(collectors, c), append(processes, c.Process)
	}
	return run.compare(ctx, nodes, servers, collectors, processes)
}

// compare sends, and prints what that cost.
func (run clusterRun) compare(ctx context.Context, nodes []*natsnode.Node, servers []*harness.Process, collectors []*harness.Collector, processes []*harness.Process) error {
	before, err := costs(servers, processes)
	if err != nil {
		return err
	}
	messages, err := stored(ctx, nodes)
	if err != nil {
		return err
	}
	begin := time.Now()
	sent, err := run.send(ctx, collectors)
	if err != nil {
		return err
	}
	took := time.Since(begin)
	if run.deliver {
		for _, c := range collectors {
			if err := awaitDelivered(ctx, c); err != nil {
				return err
			}
		}
	}
	whole := time.Since(begin)
	after, err := costs(servers, processes)
	if err != nil {
		return err
	}
	more, err := stored(ctx, nodes)
	if err != nil {
		return err
	}
	fmt.Printf("%d calls of %d bytes, %d in a batch, in %v: %.0f calls/s; all done after %v\n\n", sent, run.size, run.batch, took.Round(time.Millisecond), float64(sent)/took.Seconds(), whole.Round(time.Millisecond))
	fmt.Printf("%-12s %14s %14s %14s %14s\n", "each call", "CPU", "bytes read", "bytes written", "bytes to files")
	for i, what := range []string{"servers", "collectors"} {
		if c := after[i].minus(before[i]); c.cpu > 0 {
			n := float64(sent)
			fmt.Printf("%-12s %11.2f µs %14.0f %14.0f %14.0f\n", what, float64(c.cpu.Nanoseconds())/1e3/n, float64(c.read)/n, float64(c.written)/n, float64(c.disk)/n)
		}
	}
	fmt.Println()
	for _, kind := range []string{"CALLS", "OUTCOMES", "RETRY", "FAILED", "ATTEMPTS", "STATE"} {
		if n := more[kind] - messages[kind]; n > 0 {
			fmt.Printf("%s: %.1f messages for 1,000 calls, each synced on every server\n", kind, 1000*float64(n)/float64(sent))
		}
	}
	return nil
}

// send sends to all collectors at once, and returns how many calls were answered 200.
func (run clusterRun) send(ctx context.Context, collectors []*harness.Collector) (sent int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, run.duration)
	defer cancel()
	var loads []*harness.Load
	var sending sync.WaitGroup
	for i, c := range collectors {
		for source := range run.sources {
			l := load(c.URL, run.senders, run.batch)
			l.Run, l.WriteKey = byte(i), fmt.Sprint("load", source)
			l.CallSize, l.Noise, l.Rate = run.size, run.noise, run.rate
			loads = append(loads, l)
			sending.Go(func() { l.Do(ctx, time.Minute) })
		}
	}
	sending.Wait()
	for _, l := range loads {
		if l.Errors.Load() > 0 {
			err = errors.Join(err, fmt.Errorf("%d requests were not answered 200", l.Errors.Load()))
		}
		sent += l.Sent.Load()
	}
	if sent == 0 {
		err = errors.Join(err, errors.New("nothing was sent"))
	}
	return sent, err
}

// startServers starts the servers of a cluster, in processes of their own.
func (b *bench) startServers(servers int) (nodes []*natsnode.Node, processes []*harness.Process, err error) {
	if nodes, err = natsnode.New(b.dir, servers); err != nil {
		return nil, nil, err
	}
	for _, n := range nodes {
		p, err := b.self(append([]string{"nats-server"}, n.Args()...)...)
		if err != nil {
			killAll(processes)
			return nil, nil, err
		}
		processes = append(processes, p)
	}
	return nodes, processes, nil
}

func killAll(processes []*harness.Process) {
	for _, p := range processes {
		p.Kill()
	}
}

// newNATSServer is the command of a server.
func newNATSServer() *cobra.Command {
	return &cobra.Command{
		Use: "nats-server ARGS", Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := natsnode.FromArgs(args)
			if err != nil {
				return err
			}
			return n.Serve(cmd.Context())
		},
	}
}

// costs returns what the processes of each group have used.
func costs(groups ...[]*harness.Process) (all []cost, err error) {
	for _, group := range groups {
		var sum cost
		for _, p := range group {
			c, err := costOf(p)
			if err != nil {
				return nil, err
			}
			sum = cost{sum.cpu + c.cpu, sum.read + c.read, sum.written + c.written, sum.disk + c.disk}
		}
		all = append(all, sum)
	}
	return all, nil
}

func costOf(p *harness.Process) (c cost, err error) {
	usage, err := p.Usage()
	if err != nil {
		return c, err
	}
	c.cpu = usage.CPU
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", p.Pid()))
	if err != nil {
		return c, err
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		if err != nil {
			return c, err
		}
		switch name {
		case "rchar":
			c.read = n
		case "wchar":
			c.written = n
		case "write_bytes":
			c.disk = n
		}
	}
	return c, nil
}

// stored returns how many messages the streams of each kind have had.
func stored(ctx context.Context, nodes []*natsnode.Node) (map[string]uint64, error) {
	messages := map[string]uint64{}
	if len(nodes) == 0 {
		return messages, nil
	}
	nc, err := nats.Connect(natsnode.URLs(nodes))
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	streams := js.ListStreams(ctx)
	for info := range streams.Info() {
		_, kind, _ := strings.Cut(info.Config.Name, "-")
		messages[kind] += info.State.LastSeq
	}
	return messages, streams.Err()
}
