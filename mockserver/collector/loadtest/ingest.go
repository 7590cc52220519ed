package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
)

func newIngest() *cobra.Command {
	var seconds, rounds, senders, batch, size int
	cmd := newProfiled("ingest", "Calls stored a second, beside a bare handler that throws them away", func(ctx context.Context, b *bench) error {
		duration := time.Duration(seconds) * time.Second
		send := func(url string, p *harness.Process) (sample, error) {
			l := load(url, senders, batch)
			l.CallSize = size
			return sendFor(ctx, l, p, duration)
		}
		collector := func(config string) func() (sample, error) {
			return func() (s sample, err error) {
				c, err := b.collector(config, false)
				if err != nil {
					return s, err
				}
				defer c.Kill()
				return s, b.profiled(c.URL, duration, func() error {
					s, err = send(c.URL, c.Process)
					return err
				})
			}
		}
		contestants := []contestant{
			{"bare handler", func() (sample, error) {
				url, p, err := b.nullServer()
				if err != nil {
					return sample{}, err
				}
				defer p.Kill()
				return send(url, p)
			}},
			{"collector, sync: always", collector("")},
			{"collector, sync: 1s", collector("sync: 1s\n")},
		}
		medians, err := inTurns(rounds, contestants...)
		if err != nil {
			return err
		}
		fmt.Printf("%d senders, %d calls of %d bytes a batch, %d rounds of %v, medians\n\n", senders, batch, size, rounds, duration)
		fmt.Printf("%-26s %12s %22s %12s\n", "", "calls/s", "server CPU, s/1M calls", "peak RSS")
		for i, m := range medians {
			fmt.Printf("%-26s %12.0f %22.2f %9d MB\n", contestants[i].name, m.rate, m.cpu.Seconds()*1e6, m.peak>>20)
		}
		return nil
	})
	flags := cmd.Flags()
	flags.IntVar(&seconds, "seconds", 5, "of each run")
	flags.IntVar(&rounds, "rounds", 3, "of all runs")
	flags.IntVar(&senders, "senders", 8, "that send at once")
	flags.IntVar(&batch, "batch", 100, "calls in a batch")
	flags.IntVar(&size, "size", 800, "bytes of a call")
	return cmd
}

// sendFor sends for a time, and returns what a server took of it.
func sendFor(ctx context.Context, l *harness.Load, p *harness.Process, d time.Duration) (sample, error) {
	before, err := p.Usage()
	if err != nil {
		return sample{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	start := time.Now()
	l.Do(ctx, d)
	took := time.Since(start)
	if l.Errors.Load() > 0 {
		fmt.Fprintf(os.Stderr, "%d requests failed\n", l.Errors.Load())
	}
	return newSample(p, before, l.Sent.Load(), took)
}
