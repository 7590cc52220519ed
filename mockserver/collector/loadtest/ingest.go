package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/harness"
)

// A measured is one run of a load.
type measured struct {
	rate float64       // calls a second
	cpu  time.Duration // of the server, for a million calls
	peak int64         // RSS of the server
}

func newIngest() *cobra.Command {
	var seconds, rounds, senders, batch, size int
	var dir, profile string
	cmd := &cobra.Command{
		Use:   "ingest",
		Short: "Calls stored a second, beside a bare handler that throws them away",
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := newBench(cmd, dir)
			if err != nil {
				return err
			}
			defer b.close()
			b.profile = profile
			load := func(url string) *harness.Load {
				return &harness.Load{URLs: []string{url}, WriteKey: "load", Senders: senders, Batch: batch, CallSize: size}
			}
			duration := time.Duration(seconds) * time.Second
			contestants := []struct {
				name string
				run  func() (measured, error)
			}{
				{"bare handler", func() (measured, error) { return b.ingestNull(cmd.Context(), load, duration) }},
				{"collector, sync: always", func() (measured, error) { return b.ingest(cmd.Context(), load, duration, "") }},
				{"collector, sync: 1s", func() (measured, error) { return b.ingest(cmd.Context(), load, duration, "sync: 1s\n") }},
			}
			results := make([][]measured, len(contestants))
			for range rounds {
				for i, c := range contestants {
					m, err := c.run()
					if err != nil {
						return fmt.Errorf("%s: %w", c.name, err)
					}
					results[i] = append(results[i], m)
				}
			}
			fmt.Printf("%d senders, %d calls of %d bytes a batch, %d rounds of %v, medians\n\n", senders, batch, size, rounds, duration)
			fmt.Printf("%-26s %12s %22s %12s\n", "", "calls/s", "server CPU, s/1M calls", "peak RSS")
			for i, c := range contestants {
				var rates []float64
				var cpus []time.Duration
				var peaks []int64
				for _, m := range results[i] {
					rates, cpus, peaks = append(rates, m.rate), append(cpus, m.cpu), append(peaks, m.peak)
				}
				fmt.Printf("%-26s %12.0f %22.2f %9d MB\n", c.name, median(rates), median(cpus).Seconds(), median(peaks)>>20)
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&seconds, "seconds", 5, "of each run")
	flags.IntVar(&rounds, "rounds", 3, "of all runs")
	flags.IntVar(&senders, "senders", 8, "that send at once")
	flags.IntVar(&batch, "batch", 100, "calls in a batch")
	flags.IntVar(&size, "size", 800, "bytes of a call")
	flags.StringVar(&dir, "dir", "", "where the queue is, for its time (default: the system's temporary directory)")
	flags.StringVar(&profile, "cpuprofile", "", "write a CPU profile of the collector, of the last run with sync: 1s")
	return cmd
}

// ingest loads a collector without destinations.
func (b *bench) ingest(ctx context.Context, load func(string) *harness.Load, d time.Duration, config string) (measured, error) {
	c, err := b.collector(config, false)
	if err != nil {
		return measured{}, err
	}
	defer c.Kill()
	var m measured
	failed := b.profiled(c.URL, d, func() { m, err = run(ctx, load(c.URL), c.Process, d) })
	return m, errors.Join(err, failed)
}

// ingestNull loads a server that does nothing.
func (b *bench) ingestNull(ctx context.Context, load func(string) *harness.Load, d time.Duration) (measured, error) {
	address, err := harness.FreeAddress()
	if err != nil {
		return measured{}, err
	}
	p, err := b.self("null-server", address)
	if err != nil {
		return measured{}, err
	}
	defer p.Kill()
	if err := awaitListener(address); err != nil {
		return measured{}, err
	}
	return run(ctx, load("http://"+address), p, d)
}

func run(ctx context.Context, l *harness.Load, p *harness.Process, d time.Duration) (measured, error) {
	before, err := p.Usage()
	if err != nil {
		return measured{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	start := time.Now()
	l.Do(ctx, d)
	took := time.Since(start)
	after, err := p.Usage()
	if err != nil {
		return measured{}, err
	}
	if l.Errors.Load() > 0 {
		fmt.Fprintf(os.Stderr, "%d requests failed\n", l.Errors.Load())
	}
	calls := float64(l.Sent.Load())
	return measured{calls / took.Seconds(), time.Duration(float64(after.CPU-before.CPU) * 1e6 / calls), after.PeakRSS}, nil
}

func awaitListener(address string) error {
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			return conn.Close()
		}
		if time.Now().After(deadline) {
			return err
		}
	}
}

// newNullServer is what the collector is compared with: a bare handler, which
// reads what it gets.
func newNullServer() *cobra.Command {
	return &cobra.Command{
		Use: "null-server ADDRESS", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			server := &http.Server{Addr: args[0], ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				_, _ = io.WriteString(w, `{"success": true}`)
			})}
			return server.ListenAndServe()
		},
	}
}
