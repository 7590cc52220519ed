package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
)

func newModerate() *cobra.Command {
	var seconds, rounds int
	var rates []int
	cmd := newProfiled("moderate", "What a single call costs at rates far below the highest, beside a bare relay", func(_ context.Context, b *bench) error {
		fmt.Printf("%d rounds of %d s, medians\n\n%-12s %9s %14s %12s %10s %12s %12s\n", rounds, seconds,
			"", "calls/s", "CPU each, µs", "writes each", "kB each", "answer, p50", "p99")
		for _, rate := range rates {
			if err := b.moderate(time.Duration(seconds)*time.Second, rounds, rate); err != nil {
				return err
			}
		}
		return nil
	})
	flags := cmd.Flags()
	flags.IntVar(&seconds, "seconds", 10, "of each run")
	flags.IntVar(&rounds, "rounds", 3, "of both runs")
	flags.IntSliceVar(&rates, "rates", []int{100, 500}, "calls a second, each in a request of its own")
	return cmd
}

// A callCost is what a program has used for each call that it took and delivered.
type callCost struct {
	cpu      time.Duration
	writes   float64 // system calls
	bytes    float64 // to the disk
	p50, p99 time.Duration
}

// moderate prints the costs of the collector and of a bare relay at a rate.
func (b *bench) moderate(d time.Duration, rounds, rate int) error {
	names := []string{"bare relay", "collector"}
	costs := make([][]callCost, len(names))
	for range rounds {
		for i, start := range []func(webhook string) (*harness.Process, string, error){b.bareRelay, b.forwarder} {
			measured := *b
			if i == 0 {
				measured.profile = "" // the relay has none
			}
			c, err := measured.costOf(start, d, rate)
			if err != nil {
				return fmt.Errorf("%s: %w", names[i], err)
			}
			costs[i] = append(costs[i], c)
		}
	}
	for i, all := range costs {
		fmt.Printf("%-12s %9d %14.0f %12.1f %10.1f %12v %12v\n", names[i], rate,
			float64(median(all, func(c callCost) time.Duration { return c.cpu }).Nanoseconds())/1e3,
			median(all, func(c callCost) float64 { return c.writes }), median(all, func(c callCost) float64 { return c.bytes / 1e3 }),
			median(all, func(c callCost) time.Duration { return c.p50 }), median(all, func(c callCost) time.Duration { return c.p99 }))
	}
	return nil
}

// forwarder starts a collector with one destination.
func (b *bench) forwarder(webhook string) (*harness.Process, string, error) {
	c, err := b.collector(forwarding(webhook), false)
	if err != nil {
		return nil, "", err
	}
	return c.Process, c.URL, nil
}

// bareRelay starts a program that does no more with a call than bring it to the disk,
// answer, and post it.
func (b *bench) bareRelay(webhook string) (*harness.Process, string, error) {
	return b.server("bare-relay", webhook, filepath.Join(b.dir, "relayed"))
}

// costOf sends single calls to a program at a rate.
func (b *bench) costOf(start func(webhook string) (*harness.Process, string, error), d time.Duration, rate int) (c callCost, err error) {
	r := harness.NewReceiver()
	defer r.Close()
	p, url, err := start(r.URL)
	if err != nil {
		return c, err
	}
	defer p.Kill()
	if _, err := paced(url, r, 1, 2*time.Second, rate); err != nil { // until connections are made
		return c, err
	}
	before, err := p.Usage()
	if err != nil {
		return c, err
	}
	var answers []time.Duration
	if err := b.profiled(url, d, func() (err error) {
		answers, err = paced(url, r, 2, d, rate)
		return err
	}); err != nil {
		return c, err
	}
	after, err := p.Usage()
	n := float64(len(answers))
	return callCost{
		cpu: (after.CPU - before.CPU) / time.Duration(len(answers)), writes: float64(after.Writes-before.Writes) / n, bytes: float64(after.Written-before.Written) / n,
		p50: percentile(answers, 50), p99: percentile(answers, 99),
	}, err
}

// paced sends single calls at a rate and waits until they have arrived. It returns how long
// each took to be answered.
func paced(url string, r *harness.Receiver, run byte, d time.Duration, rate int) (answers []time.Duration, err error) {
	calls := load(url, 4, 1)
	calls.Rate, calls.Run = rate, run
	limited, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	calls.Do(limited, d)
	if err := awaitArrival(r, calls); err != nil {
		return nil, err
	}
	for call := range calls.All {
		if !call.Answered.IsZero() {
			answers = append(answers, call.Answered.Sub(call.Begun))
		}
	}
	if len(answers) == 0 {
		return nil, errors.New("no call was answered")
	}
	return answers, nil
}
