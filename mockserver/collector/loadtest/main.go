// Loadtest measures the command collector on this machine: each measurement runs
// the real binary beside what it is compared with, in processes of their own, in
// turns, and prints a table.
//
//	go run ./loadtest ingest    # calls stored a second, with fsync
//	go run ./loadtest deliver   # deliveries a second, beside a bare loop
//	go run ./loadtest dead      # a dead destination with a backlog beside a healthy one
//	go run ./loadtest start     # start-up, with a million calls pending, and idle memory
//	go run ./loadtest verify    # what the proof of the ledger takes
//	go run ./loadtest churn     # memory and the data directory while calls come and go
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/harness"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	root := &cobra.Command{
		Use: "loadtest", Short: "Measure the command collector on this machine",
		SilenceUsage: true,
	}
	root.AddCommand(newIngest(), newDeliver(), newDead(), newStart(), newVerify(), newChurn(), newNullServer(), newBareSender())
	if err := root.ExecuteContext(ctx); err != nil {
		os.Exit(1)
	}
}

// A bench is what all measurements need.
type bench struct {
	dir     string // is removed at the end
	binary  string
	profile string // a file for a CPU profile of the collector, or empty
}

func newBench(cmd *cobra.Command, dir string) (*bench, error) {
	dir, err := os.MkdirTemp(dir, "loadtest")
	if err != nil {
		return nil, err
	}
	b := &bench{dir: dir}
	if b.binary, err = harness.Build(cmd.Context(), dir); err != nil {
		return nil, err
	}
	return b, nil
}

// profiled writes a CPU profile of a collector while it does something.
func (b *bench) profiled(url string, d time.Duration, do func()) error {
	if b.profile == "" {
		do()
		return nil
	}
	failed := make(chan error, 1)
	go func() {
		failed <- download(fmt.Sprintf("%s/debug/pprof/profile?seconds=%d", url, max(1, int(d.Seconds()))), b.profile)
	}()
	do()
	return <-failed
}

func download(url, path string) error {
	res, err := http.Get(url)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, res.Body)
	return errors.Join(err, f.Close())
}

func (b *bench) close() { _ = os.RemoveAll(b.dir) }

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
	address, err := harness.FreeAddress()
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf("listen: %s\ndata: %s\nlog: {level: warn}\negress: {allow: [127.0.0.0/8]}\nsources: [{name: web, writeKey: load}, {name: other, writeKey: backlog}]\n%s", address, data, config)
	path := filepath.Join(b.dir, "collector.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return nil, err
	}
	return harness.Serve(b.binary, path, address, nil)
}

// self starts this program again as another part of the measurement.
func (b *bench) self(args ...string) (*harness.Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return harness.Start(self, args, nil)
}

// median returns the middle of values.
func median[T int | int64 | float64 | time.Duration](values []T) T {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
