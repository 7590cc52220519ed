package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A bench is what all measurements need.
type bench struct {
	dir     string // is removed at the end
	binary  string
	profile string // a file for a CPU profile of the collector, or empty
}

// newMeasurement makes the command of a measurement, with the flags of all of them.
func newMeasurement(use, short string, measure func(ctx context.Context, b *bench) error) *cobra.Command {
	var b bench
	cmd := &cobra.Command{
		Use: use, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if b.dir, err = os.MkdirTemp(b.dir, "loadtest"); err != nil {
				return err
			}
			defer func() { _ = os.RemoveAll(b.dir) }()
			if b.binary == "" {
				if b.binary, err = harness.Build(cmd.Context(), b.dir); err != nil {
					return err
				}
			}
			return measure(cmd.Context(), &b)
		},
	}
	cmd.Flags().StringVar(&b.dir, "dir", "", "where the queue is, for its time (default: the system's temporary directory)")
	cmd.Flags().StringVar(&b.binary, "binary", "", "the command collector, of another version for example (default: it is built)")
	return cmd
}

// newProfiled is newMeasurement of one that calls profiled, with the flag for that.
func newProfiled(use, short string, measure func(ctx context.Context, b *bench) error) *cobra.Command {
	var profile string
	cmd := newMeasurement(use, short, func(ctx context.Context, b *bench) error {
		b.profile = profile
		return measure(ctx, b)
	})
	cmd.Flags().StringVar(&profile, "cpuprofile", "", "write a CPU profile of the collector, of the last run that is profiled")
	return cmd
}

// profiled writes a CPU profile of a collector while it does something, if one is asked
// for.
func (b *bench) profiled(url string, d time.Duration, do func() error) error {
	if b.profile == "" {
		return do()
	}
	failed := make(chan error, 1)
	go func() {
		failed <- download(fmt.Sprintf("%s/debug/pprof/profile?seconds=%d", url, max(1, int(d.Seconds()))), b.profile)
	}()
	return errors.Join(do(), <-failed)
}

func download(url, path string) error {
	res, err := http.Get(url)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, res.Status)
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, res.Body)
	return errors.Join(err, f.Close())
}

// collector starts a collector on an empty directory of its own, with the text of
// its configuration beside listen and data. With keep it goes on with what the
// last one left.
func (b *bench) collector(config string, keep bool) (*harness.Collector, error) {
	data := filepath.Join(b.dir, "data")
	if !keep {
		if err := os.RemoveAll(data); err != nil {
			return nil, err
		}
	}
	return b.serve("data: "+data+"\nsources: [{name: web, writeKey: load}, {name: other, writeKey: backlog}]", config)
}

// serve starts a collector. begin is data or nats of its configuration, and sources.
func (b *bench) serve(begin, config string) (*harness.Collector, error) {
	address, err := harness.FreeAddress()
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf("listen: %s\n%s\nlog: {level: warn}\negress: {allow: [127.0.0.0/8]}\n%s", address, begin, config)
	f, err := os.CreateTemp(b.dir, "collector*.yaml")
	if err != nil {
		return nil, err
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	return harness.Serve(b.binary, f.Name(), address, nil)
}

// forwarding is the configuration of one destination.
func forwarding(webhook string) string {
	return fmt.Sprintf("destinations: [{name: hook, webhooks: [{url: '%s'}]}]\n", webhook)
}

// load makes batches for a collector.
func load(url string, senders, batch int) *harness.Load {
	return &harness.Load{URLs: []string{url}, WriteKey: "load", Senders: senders, Batch: batch}
}

// A ledger is the account of a destination. Holds and Problems are of a proof.
type ledger struct {
	tracking.Ledger
	Holds    bool
	Problems []string
}

// readLedger asks a collector for the ledger of its only destination.
func readLedger(ctx context.Context, c *harness.Collector, query string) (l ledger, err error) {
	var answer struct{ Destinations []ledger }
	if err := c.Ask(ctx, http.MethodGet, "/ledger"+query, nil, &answer); err != nil {
		return l, err
	}
	if len(answer.Destinations) != 1 {
		return l, fmt.Errorf("the ledger has %d destinations instead of one", len(answer.Destinations))
	}
	return answer.Destinations[0], nil
}

// awaitDelivered waits until nothing is pending.
func awaitDelivered(ctx context.Context, c *harness.Collector) error {
	for {
		if l, err := readLedger(ctx, c, ""); err != nil || l.Pending == 0 {
			return err
		}
		if err := pause.For(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// awaitArrival waits until all calls of a load have come to a receiver.
func awaitArrival(r *harness.Receiver, calls *harness.Load) error {
	for deadline := time.Now().Add(10 * time.Second); r.Missing(calls) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("%d calls did not arrive within 10 s", r.Missing(calls))
		}
	}
	return nil
}

// A sample is what a program did in a run, and what that took.
type sample struct {
	rate float64       // a second
	cpu  time.Duration // for each
	peak int64         // RSS
}

// newSample is what a process has done of n things since before.
func newSample(p *harness.Process, before harness.Usage, n int64, took time.Duration) (sample, error) {
	after, err := p.Usage()
	return sample{float64(n) / took.Seconds(), (after.CPU - before.CPU) / time.Duration(max(n, 1)), after.PeakRSS}, err
}

// A contestant is one of those that are compared.
type contestant struct {
	name string
	run  func() (sample, error)
}

// inTurns runs each contestant once a round, and returns the medians of each.
func inTurns(rounds int, contestants ...contestant) ([]sample, error) {
	samples := make([][]sample, len(contestants))
	for range rounds {
		for i, c := range contestants {
			s, err := c.run()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			samples[i] = append(samples[i], s)
		}
	}
	medians := make([]sample, len(contestants))
	for i, all := range samples {
		medians[i] = sample{
			median(all, func(s sample) float64 { return s.rate }),
			median(all, func(s sample) time.Duration { return s.cpu }),
			median(all, func(s sample) int64 { return s.peak }),
		}
	}
	return medians, nil
}

// median returns the middle of what of makes of values; 0 where there are none.
func median[S any, T int64 | float64 | time.Duration](all []S, of func(S) T) T {
	if len(all) == 0 {
		return 0
	}
	var values []T
	for _, one := range all {
		values = append(values, of(one))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func percentile(all []time.Duration, p int) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[(len(all)-1)*p/100].Round(10 * time.Microsecond)
}
