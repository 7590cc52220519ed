package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
)

func newDeliver() *cobra.Command {
	var seconds, rounds, concurrency int
	cmd := newProfiled("deliver", "Deliveries a second out of the queue, beside a bare http.Client loop", func(ctx context.Context, b *bench) error {
		duration := time.Duration(seconds) * time.Second
		medians, err := inTurns(rounds,
			contestant{"bare loop", func() (sample, error) { return b.deliverBare(duration, concurrency) }},
			contestant{"collector", func() (sample, error) { return b.deliver(ctx, duration, concurrency) }},
		)
		if err != nil {
			return err
		}
		fmt.Printf("%d requests at once, %d rounds of %v, medians\n\n", concurrency, rounds, duration)
		fmt.Printf("%-12s %12s %22s\n", "", "requests/s", "sender CPU, µs/request")
		for i, name := range []string{"bare loop", "collector"} {
			fmt.Printf("%-12s %12.0f %22.1f\n", name, medians[i].rate, float64(medians[i].cpu.Nanoseconds())/1000)
		}
		fmt.Printf("\n%.0f %% of the bare loop\n", 100*medians[1].rate/medians[0].rate)
		return nil
	})
	flags := cmd.Flags()
	flags.IntVar(&seconds, "seconds", 5, "of each run")
	flags.IntVar(&rounds, "rounds", 3, "of both runs")
	flags.IntVar(&concurrency, "concurrency", 64, "requests at once")
	return cmd
}

// deliverBare measures a program that does nothing but post one payload.
func (b *bench) deliverBare(d time.Duration, concurrency int) (s sample, err error) {
	url, receiver, err := b.nullServer()
	if err != nil {
		return s, err
	}
	defer receiver.Kill()
	p, err := b.self("bare-sender", url, d.String(), strconv.Itoa(concurrency))
	if err != nil {
		return s, err
	}
	if err := p.Wait(); err != nil {
		return s, fmt.Errorf("%w: %s", err, p.Log())
	}
	var all int64
	if _, err := fmt.Sscan(p.Log(), &s.rate, &all); err != nil {
		return s, err
	}
	s.cpu = p.CPU() / time.Duration(all)
	return s, nil
}

// deliver fills the queue of a paused destination and then lets it go.
func (b *bench) deliver(ctx context.Context, d time.Duration, concurrency int) (s sample, err error) {
	url, receiver, err := b.nullServer()
	if err != nil {
		return s, err
	}
	defer receiver.Kill()
	c, err := b.collector(fmt.Sprintf("limits: {concurrency: %d}\ndestinations: [{name: hook, sharedSecret: s3cret, webhooks: [{url: '%s'}]}]\n", concurrency, url), false)
	if err != nil {
		return s, err
	}
	defer c.Kill()
	if err := c.Ask(ctx, http.MethodPost, "/destinations/hook/pause", nil, nil); err != nil {
		return s, err
	}
	backlog := load(c.URL, 4, 100)
	backlog.Calls = int64(d.Seconds()) * 50_000
	backlog.Do(ctx, time.Minute)
	if err := c.Ask(ctx, http.MethodPost, "/destinations/hook/resume", nil, nil); err != nil {
		return s, err
	}
	time.Sleep(d / 5) // warm up
	return s, b.profiled(c.URL, d, func() error {
		s, err = deliveredIn(ctx, c, d)
		return err
	})
}

// deliveredIn measures what is delivered in a time.
func deliveredIn(ctx context.Context, c *harness.Collector, d time.Duration) (s sample, err error) {
	before, err := readLedger(ctx, c, "")
	if err != nil {
		return s, err
	}
	used, err := c.Usage()
	if err != nil {
		return s, err
	}
	start := time.Now()
	time.Sleep(d)
	after, err := readLedger(ctx, c, "")
	if err != nil {
		return s, err
	}
	took := time.Since(start)
	if after.Pending == 0 {
		return s, fmt.Errorf("the queue was empty before %v had passed; %d calls were delivered", d, after.Delivered)
	}
	return newSample(c.Process, used, after.Delivered-before.Delivered, took)
}
