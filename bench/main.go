// Command bench measures the client and the collector. The figures in the documents come from it.
//
//	bench [flags] [MEASUREMENT...]
//
// A measurement compares programs in one run, so that the ratios are valid on any machine. Each
// program has its own process. The programs take turns, and tables contain medians. The receiver
// counts every call.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"
)

// A bench contains the flags and the results of a run.
type bench struct {
	quick    bool
	rounds   int           // 0 means the default of the measurement
	duration time.Duration // the duration of one run; 0 means the default of the measurement
	rate     []int         // calls per second; if empty, the default of the measurement
	profile  string

	clients  []string
	workload string // if set, only workloads whose names contain it are measured

	dir, binary string
	calls       callShape
	pending     int
	delivered   int
	backlog     int
	failing     int // the response status of a failing destination; 0 means no response
	cluster     cluster

	ctx      context.Context
	measured map[string]string // figures, keyed by their names in figures.json
}

var measurements = []struct {
	name, group, about string
	run                func(*bench) error
}{
	{"cost", "client", "CPU and allocations per call, compared with other libraries", (*bench).cost},
	{"forms", "client", "CPU per call with a map, attributes or a generated type", (*bench).forms},
	{"memory", "client", "peak memory with the default budget", (*bench).memory},
	{"latency", "client", "duration of a call", (*bench).latency},
	{"outage", "client", "lost calls and memory while the collector is unavailable", (*bench).outages},
	{"ingest", "collector", "stored calls per second, compared with a handler that discards them", (*bench).ingest},
	{"deliver", "collector", "deliveries per second, compared with a loop of http.Client", (*bench).deliver},
	{"dead", "collector", "time to delivery while another destination fails and has a backlog", (*bench).dead},
	{"start", "collector", "startup and idle memory, with pending or delivered calls", (*bench).start},
	{"verify", "collector", "duration and memory of verifying the ledger", (*bench).verify},
	{"quiet", "", "cost and delivery time of single calls at 30, 100 and 500 per second, compared with a minimal relay", (*bench).quiet},
	{"single", "", "single calls stored and delivered per second", (*bench).single},
	{"drain", "", "speed of a destination while it delivers a long backlog, embedded and on NATS servers", (*bench).drain},
	{"churn", "", "memory and disk while calls are delivered for 30 minutes", (*bench).churn},
	{"cluster", "", "cost per call on NATS servers", (*bench).onCluster},
}

func main() {
	if ended, err := runRole(); ended {
		exit(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	b := bench{ctx: ctx, measured: map[string]string{}}
	flag.BoolVar(&b.quick, "quick", false, "run one round with a tenth of the time and calls")
	flag.IntVar(&b.rounds, "rounds", 0, "runs of each program (default: 5 for clients, 3 for collectors)")
	flag.DurationVar(&b.duration, "time", 0, "duration of one run (default: depends on the measurement)")
	flag.Func("rate", "calls per second for latency, dead, quiet, churn and cluster, separated by commas", b.parseRate)
	flag.StringVar(&b.profile, "profile", "", "directory for profiles of the measured programs, created if it does not exist (start, verify: allocations; drain, churn, cluster: none)")
	names := flag.String("clients", strings.Join(clientNames, ","), "clients to measure, separated by commas; the others are compared with the first")
	flag.StringVar(&b.workload, "workload", "", "measure only workloads whose names contain this string")
	flag.StringVar(&b.dir, "dir", "", "parent directory for collector data (default: the temporary directory)")
	flag.StringVar(&b.binary, "binary", "", "path of the command collector, for example of another version (default: build it)")
	flag.IntVar(&b.calls.senders, "senders", 8, "concurrent senders to a collector (single: 32)")
	flag.IntVar(&b.calls.batch, "batch", 100, "calls per request to a collector")
	flag.IntVar(&b.calls.size, "size", 800, "bytes per call to a collector")
	flag.BoolVar(&b.calls.noise, "noise", false, "cluster: send calls that do not compress")
	flag.IntVar(&b.pending, "pending", 1_000_000, "start, verify, drain: pending calls")
	flag.IntVar(&b.delivered, "delivered", 1_000_000, "start, verify: delivered calls")
	flag.IntVar(&b.backlog, "backlog", 100_000, "dead: pending calls of the failing destination")
	flag.IntVar(&b.failing, "failing", 0, "dead: status of the failing destination (default: it never responds)")
	flag.IntVar(&b.cluster.servers, "servers", 3, "cluster, drain: number of NATS servers; 0: each collector has its own data directory")
	flag.IntVar(&b.cluster.collectors, "collectors", 1, "cluster: number of collectors")
	flag.IntVar(&b.cluster.names, "names", 1, "cluster: number of nats.name values, each with its own streams")
	flag.IntVar(&b.cluster.sources, "sources", 1, "cluster: number of sources per collector")
	flag.BoolVar(&b.cluster.deliver, "deliver", false, "cluster: deliver the calls")
	record := flag.String("record", "", "update this file of figures with the results")
	render := flag.String("render", "", "do not measure; write the figures of bench/figures.json into the documents in this directory, and draw their chart")
	flag.Usage = usageText
	flag.Parse()
	b.clients = strings.Split(*names, ",")
	switch {
	case *render != "":
		exit(renderAll(*render))
	case *record != "" && (b.quick || b.workload != ""):
		exit(errors.New("-record requires full measurements: omit -quick and -workload"))
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

// run runs the measurements or groups with the given names. If file is not empty, run updates
// the figures in that file.
func (b *bench) run(names []string, file string) (err error) {
	for _, name := range b.clients {
		if clients[name] == nil {
			return fmt.Errorf("%w: %q", errUnknownClient, name)
		}
	}
	if len(names) == 0 {
		names = []string{"client"}
	}
	if b.profile != "" {
		if err := os.MkdirAll(b.profile, 0o755); err != nil {
			return err
		}
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

// roundCount returns the number of rounds. usual applies unless a flag changes it.
func (b *bench) roundCount(usual int) int {
	switch {
	case b.rounds > 0:
		return b.rounds
	case b.quick:
		return 1
	}
	return usual
}

// runTime returns the duration of a run. usual applies unless a flag changes it.
func (b *bench) runTime(usual time.Duration) time.Duration {
	switch {
	case b.duration > 0:
		return b.duration
	case b.quick:
		return max(usual/10, 500*time.Millisecond)
	}
	return usual
}

// callCount returns the number of calls. With -quick, it is a tenth of usual.
func (b *bench) callCount(usual int) int {
	if b.quick {
		return usual / 10
	}
	return usual
}

// rates returns the rates of the flag -rate. Without the flag, it returns usual.
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
