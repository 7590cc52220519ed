package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
)

func newStart() *cobra.Command {
	var rounds, pending int
	cmd := newMeasurement("start", "From the start of the process to readiness, and what it takes when idle", func(ctx context.Context, b *bench) error {
		empty, err := b.startEmpty(rounds)
		if err != nil {
			return err
		}
		full, err := b.startFull(ctx, rounds, pending)
		if err != nil {
			return err
		}
		fmt.Printf("%d rounds, medians\n\n", rounds)
		fmt.Printf("%-40s %12s %12s %12s\n", "", "ready after", "CPU", "RSS, idle")
		empty.print("an empty directory")
		full.print(fmt.Sprintf("%d calls pending, after kill -9", pending))
		return nil
	})
	cmd.Flags().IntVar(&rounds, "rounds", 5, "of each start")
	cmd.Flags().IntVar(&pending, "pending", 1_000_000, "calls that are pending")
	return cmd
}

// settleIdle is how long a process is left alone before its memory is read.
const settleIdle = 5 * time.Second

// starts are what several starts took.
type starts struct {
	all  []*harness.Collector
	idle int64 // RSS, after the last
}

// restingMemory reads the memory of a collector that does nothing.
func restingMemory(c *harness.Collector) (int64, error) {
	time.Sleep(settleIdle)
	usage, err := c.Usage()
	return usage.RSS, err
}

func (s *starts) print(what string) {
	ready := median(s.all, func(c *harness.Collector) time.Duration { return c.Startup })
	cpu := median(s.all, func(c *harness.Collector) time.Duration { return c.StartupCPU })
	fmt.Printf("%-40s %12v %12v %9d MB\n", what, ready.Round(time.Millisecond), cpu, s.idle>>20)
}

func (b *bench) startEmpty(rounds int) (*starts, error) {
	s := &starts{}
	for range rounds {
		c, err := b.collector("", false)
		if err != nil {
			return nil, err
		}
		s.all = append(s.all, c)
		if len(s.all) == rounds {
			s.idle, err = restingMemory(c)
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
	config := forwarding("http://" + dead)
	c, err := b.collector(config, false)
	if err != nil {
		return nil, err
	}
	backlog := load(c.URL, 8, 100)
	backlog.Calls = int64(pending)
	backlog.Do(ctx, time.Minute)
	s := &starts{}
	for range rounds {
		c.Kill()
		if c, err = b.collector(config, true); err != nil {
			return nil, err
		}
		s.all = append(s.all, c)
	}
	defer c.Kill()
	s.idle, err = restingMemory(c)
	return s, err
}
