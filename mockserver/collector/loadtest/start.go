package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/harness"
)

func newStart() *cobra.Command {
	var rounds, pending int
	var dir string
	cmd := &cobra.Command{
		Use:   "start",
		Short: "From the start of the process to readiness, and what it takes when idle",
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := newBench(cmd, dir)
			if err != nil {
				return err
			}
			defer b.close()
			empty, err := b.startEmpty(rounds)
			if err != nil {
				return err
			}
			full, err := b.startFull(cmd.Context(), rounds, pending)
			if err != nil {
				return err
			}
			fmt.Printf("%d rounds, medians\n\n", rounds)
			fmt.Printf("%-40s %12s %12s %12s\n", "", "ready after", "CPU", "RSS, idle")
			empty.print("an empty directory")
			full.print(fmt.Sprintf("%d calls pending, after kill -9", pending))
			return nil
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&rounds, "rounds", 5, "of each start")
	flags.IntVar(&pending, "pending", 1_000_000, "calls that are pending")
	flags.StringVar(&dir, "dir", "", "where the queue is, for its time (default: the system's temporary directory)")
	return cmd
}

// settleIdle is how long a process is left alone before its memory is read.
const settleIdle = 5 * time.Second

// starts are what several starts took.
type starts struct {
	ready, cpu []time.Duration
	idle       int64 // RSS, after the last
}

func (s *starts) add(c *harness.Collector) {
	s.ready, s.cpu = append(s.ready, c.Startup), append(s.cpu, c.StartupCPU)
}

// rest reads the memory of a collector that does nothing.
func (s *starts) rest(c *harness.Collector) error {
	time.Sleep(settleIdle)
	usage, err := c.Usage()
	s.idle = usage.RSS
	return err
}

func (s *starts) print(what string) {
	fmt.Printf("%-40s %12v %12v %9d MB\n", what, median(s.ready).Round(time.Millisecond), median(s.cpu), s.idle>>20)
}

func (b *bench) startEmpty(rounds int) (*starts, error) {
	s := &starts{}
	for range rounds {
		c, err := b.collector("", false)
		if err != nil {
			return nil, err
		}
		s.add(c)
		if len(s.ready) == rounds {
			err = s.rest(c)
		}
		c.Kill()
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (b *bench) startFull(ctx context.Context, rounds, pending int) (*starts, error) {
	dead, closeDead, err := harness.DeadPort()
	if err != nil {
		return nil, err
	}
	defer func() { _ = closeDead() }()
	config := fmt.Sprintf("destinations: [{name: dead, webhooks: [{url: 'http://%s'}]}]\n", dead)
	c, err := b.collector(config, false)
	if err != nil {
		return nil, err
	}
	load := &harness.Load{URLs: []string{c.URL}, WriteKey: "load", Senders: 8, Batch: 100, CallSize: 800, Calls: int64(pending)}
	load.Do(ctx, time.Minute)
	s := &starts{}
	for range rounds {
		c.Kill()
		if c, err = b.collector(config, true); err != nil {
			return nil, err
		}
		s.add(c)
	}
	defer c.Kill()
	return s, s.rest(c)
}
