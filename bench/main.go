// Command bench measures the client and the collector. It is the source of the figures in
// the documents.
//
//	bench [flags] [MEASUREMENT...]
//
// A measurement compares programs in one run, so that the ratios hold on any machine. Each
// program has its own process; the programs take turns, and tables contain medians. Every
// call is counted at the receiver.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A bench contains the flags and the results of a run.
type bench struct {
	quick    bool
	rounds   int           // 0: the default of the measurement
	duration time.Duration // of one run; 0: the default of the measurement
	rate     []int         // calls per second; empty: the default of the measurement
	profile  string

	clients  []string
	workload string // a part of the names of the chosen workloads

	dir, binary string
	calls       callShape
	pending     int
	delivered   int
	backlog     int
	failing     int // the status of a failing destination; 0: it never responds
	cluster     cluster

	ctx      context.Context
	measured map[string]string // figures by their names in figures.json
}

var measurements = []struct {
	name, group, about string
	run                func(*bench) error
}{
	{"cost", "client", "CPU and allocations of a call, next to other libraries", (*bench).cost},
	{"forms", "client", "CPU of a call with a map, attributes or a generated type", (*bench).forms},
	{"memory", "client", "peak memory with the default budget", (*bench).memory},
	{"latency", "client", "duration of a call", (*bench).latency},
	{"outage", "client", "lost calls and memory while the collector is unavailable", (*bench).outages},
	{"ingest", "collector", "stored calls per second, next to a handler that discards them", (*bench).ingest},
	{"deliver", "collector", "deliveries per second, next to a loop of http.Client", (*bench).deliver},
	{"dead", "collector", "time to delivery next to a failing destination with a backlog", (*bench).dead},
	{"start", "collector", "startup and idle memory, with pending or delivered calls", (*bench).start},
	{"verify", "collector", "duration and memory of verifying the ledger", (*bench).verify},
	{"quiet", "", "cost and time of single calls at 30, 100 and 500 per second, next to a bare relay", (*bench).quiet},
	{"single", "", "single calls stored and delivered per second", (*bench).single},
	{"churn", "", "memory and disk while calls are delivered for 30 minutes", (*bench).churn},
	{"cluster", "", "cost of a call on NATS servers", (*bench).onCluster},
}

func main() {
	if ended, err := runRole(); ended {
		exit(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	b := bench{ctx: ctx, measured: map[string]string{}}
	flag.BoolVar(&b.quick, "quick", false, "one round, and a tenth of the time and calls")
	flag.IntVar(&b.rounds, "rounds", 0, "runs of each program (default: 5 for clients, 3 for collectors)")
	flag.DurationVar(&b.duration, "time", 0, "duration of one run (default: depends on the measurement)")
	flag.Func("rate", "calls per second of latency, dead, quiet, churn and cluster, separated by commas", b.parseRate)
	flag.StringVar(&b.profile, "profile", "", "a directory for profiles of the measured programs")
	names := flag.String("clients", strings.Join(clientNames, ","), "the clients; the others are compared with the first")
	flag.StringVar(&b.workload, "workload", "", "measure only workloads whose names contain this")
	flag.StringVar(&b.dir, "dir", "", "the directory for data of collectors (default: the temporary directory)")
	flag.StringVar(&b.binary, "binary", "", "the command collector, for example of another version (default: build it)")
	flag.IntVar(&b.calls.senders, "senders", 8, "concurrent senders to a collector (single: 32)")
	flag.IntVar(&b.calls.batch, "batch", 100, "calls in a request to a collector")
	flag.IntVar(&b.calls.size, "size", 800, "bytes of a call to a collector")
	flag.BoolVar(&b.calls.noise, "noise", false, "cluster: calls that do not compress")
	flag.IntVar(&b.pending, "pending", 1_000_000, "start, verify: pending calls")
	flag.IntVar(&b.delivered, "delivered", 700_000, "start, verify: delivered calls")
	flag.IntVar(&b.backlog, "backlog", 100_000, "dead: calls that wait for the failing destination")
	flag.IntVar(&b.failing, "failing", 0, "dead: status of the failing destination (default: it never responds)")
	flag.IntVar(&b.cluster.servers, "servers", 3, "cluster: NATS servers; 0: each collector has its own data directory")
	flag.IntVar(&b.cluster.collectors, "collectors", 1, "cluster: collectors")
	flag.IntVar(&b.cluster.names, "names", 1, "cluster: values of nats.name, each with its own streams")
	flag.IntVar(&b.cluster.sources, "sources", 1, "cluster: sources that send to each collector")
	flag.BoolVar(&b.cluster.deliver, "deliver", false, "cluster: deliver the calls")
	record := flag.String("record", "", "write the results to this file of figures")
	render := flag.String("render", "", "do not measure; write the figures of bench/figures.json into the documents of this directory")
	markdown := flag.String("draw", "", "do not measure; draw the table of costs in this Markdown file, into its directory")
	flag.Usage = usageText
	flag.Parse()
	b.clients = strings.Split(*names, ",")
	switch {
	case *markdown != "":
		exit(draw(*markdown, filepath.Dir(*markdown)))
	case *render != "":
		exit(renderAll(*render))
	case *record != "" && (b.quick || b.workload != ""):
		exit(errors.New("-record needs full measurements: omit -quick and -workload"))
	}
	exit(b.run(flag.Args(), *record))
}

func usageText() {
	fmt.Fprintln(os.Stderr, "usage: go run ./bench [flags] [MEASUREMENT...]\n\nMeasurements (client is the default, collector is the other group):")
	for _, m := range measurements {
		fmt.Fprintf(os.Stderr, "  %-10s %-10s %s\n", m.name, m.group, m.about)
	}
	fmt.Fprintln(os.Stderr, "\nFlags:")
	flag.PrintDefaults()
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// run runs the measurements of these names or groups, and updates the file of figures if
// there is one.
func (b *bench) run(names []string, file string) (err error) {
	for _, name := range b.clients {
		if clients[name] == nil {
			return fmt.Errorf("%w: %q", errUnknownClient, name)
		}
	}
	if len(names) == 0 {
		names = []string{"client"}
	}
	if b.dir, err = os.MkdirTemp(b.dir, "bench"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	printMachine()
	for _, name := range names {
		found := false
		for _, m := range measurements {
			if m.name != name && m.group != name {
				continue
			}
			found = true
			if err := m.run(b); err != nil {
				return fmt.Errorf("%s: %w", m.name, err)
			}
		}
		if !found {
			return fmt.Errorf("unknown measurement %q: see -help", name)
		}
	}
	if file == "" {
		return nil
	}
	f, err := readFigures(file)
	if err != nil {
		return err
	}
	f.update(b.measured, time.Now())
	return f.write(file)
}

// times returns the number of rounds.
func (b *bench) times(usual int) int {
	switch {
	case b.rounds > 0:
		return b.rounds
	case b.quick:
		return 1
	}
	return usual
}

// length returns the duration of a run.
func (b *bench) length(usual time.Duration) time.Duration {
	switch {
	case b.duration > 0:
		return b.duration
	case b.quick:
		return max(usual/10, 500*time.Millisecond)
	}
	return usual
}

// many returns a number of calls.
func (b *bench) many(usual int) int {
	if b.quick {
		return usual / 10
	}
	return usual
}

// rates returns the calls per second.
func (b *bench) rates(usual ...int) []int {
	if len(b.rate) > 0 {
		return b.rate
	}
	return usual
}

func (b *bench) parseRate(list string) error {
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(text)
		if err != nil {
			return err
		}
		b.rate = append(b.rate, n)
	}
	return nil
}
