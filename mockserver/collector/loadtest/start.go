package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
)

func newStart() *cobra.Command {
	var rounds, pending, delivered int
	cmd := newMeasurement("start", "From the start of the process to readiness, and what it takes when idle", func(ctx context.Context, b *bench) error {
		fmt.Printf("%d rounds, medians\n\n", rounds)
		fmt.Printf("%-40s %12s %12s %12s %12s\n", "", "ready after", "CPU", "RSS, idle", "RSS, most")
		empty, err := b.startEmpty(rounds)
		if err != nil {
			return err
		}
		empty.print("an empty directory")
		if pending > 0 {
			if err := b.startPending(ctx, rounds, pending); err != nil {
				return err
			}
		}
		if delivered > 0 {
			return b.startDelivered(ctx, rounds, delivered)
		}
		return nil
	})
	cmd.Flags().IntVar(&rounds, "rounds", 5, "of each start")
	cmd.Flags().IntVar(&pending, "pending", 1_000_000, "calls that are pending")
	cmd.Flags().IntVar(&delivered, "delivered", 700_000, "calls that were delivered, and are kept to be replayed")
	return cmd
}

// settleIdle is how long a process is left alone before its memory is read.
const settleIdle = 5 * time.Second

// starts are what several starts took.
type starts struct {
	all  []*harness.Collector
	last harness.Usage // of the last of them, some time after
}

// resting returns what a collector that does nothing has used.
func resting(c *harness.Collector) (harness.Usage, error) {
	time.Sleep(settleIdle)
	return c.Usage()
}

func (s *starts) print(what string) {
	ready := median(s.all, func(c *harness.Collector) time.Duration { return c.Startup })
	cpu := median(s.all, func(c *harness.Collector) time.Duration { return c.StartupCPU })
	fmt.Printf("%-40s %12v %12v %9d MB %9d MB\n", what, ready.Round(time.Millisecond), cpu, s.last.RSS>>20, s.last.PeakRSS>>20)
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
			s.last, err = resting(c)
		}
		c.Kill()
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

// startPending starts on calls that wait for a webhook that never answers.
func (b *bench) startPending(ctx context.Context, rounds, pending int) error {
	dead, closeDead, err := harness.DeadPort()
	if err != nil {
		return err
	}
	defer func() { _ = closeDead() }()
	config := forwarding("http://" + dead)
	c, err := b.fill(ctx, config, pending)
	if err != nil {
		return err
	}
	return b.startAgain(c, config, rounds, fmt.Sprintf("%d calls pending, after kill -9", pending))
}

// startDelivered starts on calls that were delivered, and what is known of their
// attempts.
func (b *bench) startDelivered(ctx context.Context, rounds, delivered int) error {
	url, receiver, err := b.nullServer()
	if err != nil {
		return err
	}
	defer receiver.Kill()
	config := forwarding(url)
	c, err := b.fill(ctx, config, delivered)
	if err != nil {
		return err
	}
	if err := awaitDelivered(ctx, c); err != nil {
		c.Kill()
		return err
	}
	return b.startAgain(c, config, rounds, fmt.Sprintf("%d calls delivered, after kill -9", delivered))
}

// fill starts a collector on an empty directory and sends it calls.
func (b *bench) fill(ctx context.Context, config string, calls int) (*harness.Collector, error) {
	c, err := b.collector(config, false)
	if err != nil {
		return nil, err
	}
	backlog := load(c.URL, 8, 100)
	backlog.Calls = int64(calls)
	backlog.Do(ctx, time.Minute)
	return c, nil
}

// startAgain kills a collector and starts it on what it left, in each round.
func (b *bench) startAgain(c *harness.Collector, config string, rounds int, what string) (err error) {
	s := &starts{}
	for range rounds {
		c.Kill()
		if c, err = b.collector(config, true); err != nil {
			return err
		}
		s.all = append(s.all, c)
	}
	defer c.Kill()
	if s.last, err = resting(c); err == nil {
		s.print(what)
	}
	return err
}
