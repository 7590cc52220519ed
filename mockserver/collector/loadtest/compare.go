package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// compareSecret signs what the collector sends, and the receiver verifies it.
const compareSecret = "s3cret"

func newCompare() *cobra.Command {
	var seconds, senders, rate int
	cmd := newProfiled("compare", "What docs/comparison.md has of other programs: single calls, each on the disk before its answer", func(ctx context.Context, b *bench) error {
		d := time.Duration(seconds) * time.Second
		idle, err := b.startEmpty(1)
		if err != nil {
			return err
		}
		all, err := b.single(ctx, d, senders)
		if err != nil {
			return err
		}
		alone, cpu, err := b.arrivals(ctx, d, rate, false)
		if err != nil {
			return err
		}
		beside, _, err := b.arrivals(ctx, d, rate, true)
		if err != nil {
			return err
		}
		fmt.Printf("%-60s %10.0f\n", fmt.Sprintf("calls accepted and delivered a second, %d senders", senders), all.rate)
		fmt.Printf("%-60s %10.0f\n", "CPU of the collector for a million of them, in seconds", all.cpu.Seconds()*1e6)
		fmt.Printf("%-60s %10v\n", fmt.Sprintf("from the answer to the arrival at %d a second, median", rate), percentile(alone, 50))
		fmt.Printf("%-60s %10v\n", "… p99", percentile(alone, 99))
		fmt.Printf("%-60s %10v\n", "… CPU of the collector for each", cpu.Round(time.Microsecond))
		fmt.Printf("%-60s %10v\n", "… beside a destination that hangs, median", percentile(beside, 50))
		fmt.Printf("%-60s %10v\n", "… p99", percentile(beside, 99))
		fmt.Printf("%-60s %7d MB\n", "memory when idle", idle.last.RSS>>20)
		return nil
	})
	flags := cmd.Flags()
	flags.IntVar(&seconds, "seconds", 10, "of each run")
	flags.IntVar(&senders, "senders", 32, "that send one call at a time")
	flags.IntVar(&rate, "rate", 30, "calls a second where their arrival is measured")
	return cmd
}

// verifying is a receiver of signed calls alone.
func verifying() *harness.Receiver {
	r := harness.NewReceiver()
	r.Config.Handler = webhook.Handler(compareSecret, r) // nothing has come yet
	return r
}

// signed is the configuration of a destination.
func signed(name, url string) string {
	return fmt.Sprintf("- {name: %s, sharedSecret: %s, webhooks: [{url: '%s'}]}\n", name, compareSecret, url)
}

// single sends calls one at a time, and counts until all are delivered.
func (b *bench) single(ctx context.Context, d time.Duration, senders int) (s sample, err error) {
	r := verifying()
	defer r.Close()
	c, err := b.collector("destinations:\n"+signed("hook", r.URL), false)
	if err != nil {
		return s, err
	}
	defer c.Kill()
	before, err := c.Usage()
	if err != nil {
		return s, err
	}
	calls := load(c.URL, senders, 1)
	limited, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	begin := time.Now()
	if err := b.profiled(c.URL, d, func() error { calls.Do(limited, d); return nil }); err != nil {
		return s, err
	}
	if err := awaitDelivered(ctx, c); err != nil {
		return s, err
	}
	took := time.Since(begin)
	if missing := r.Missing(calls); missing > 0 {
		return s, fmt.Errorf("%d calls did not arrive", missing)
	}
	return newSample(c.Process, before, r.Distinct(), took)
}

// arrivals returns how long after its answer each call came, at a low rate, and what CPU
// one took, alone or beside a destination that takes connections and never answers.
func (b *bench) arrivals(ctx context.Context, d time.Duration, rate int, beside bool) (all []time.Duration, cpu time.Duration, err error) {
	r := verifying()
	defer r.Close()
	config := "destinations:\n" + signed("hook", r.URL)
	if beside {
		dead, closeDead, err := harness.DeadPort()
		if err != nil {
			return nil, 0, err
		}
		defer func() { _ = closeDead() }()
		config += signed("hangs", "http://"+dead)
	}
	c, err := b.collector(config, false)
	if err != nil {
		return nil, 0, err
	}
	defer c.Kill()
	before, err := c.Usage()
	if err != nil {
		return nil, 0, err
	}
	calls := load(c.URL, 2, 1)
	calls.Rate = rate
	limited, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	calls.Do(limited, d)
	if err := awaitArrival(r, calls); err != nil {
		return nil, 0, err
	}
	s, err := newSample(c.Process, before, r.Distinct(), d)
	for call := range calls.All {
		all = append(all, max(0, r.At(call.ID).Sub(call.Answered))) // it may come before the answer
	}
	return all, s.cpu, err
}
