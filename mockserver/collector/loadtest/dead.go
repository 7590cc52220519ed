package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
)

func newDead() *cobra.Command {
	var seconds, rounds, backlog, rate, answers int
	cmd := newProfiled("dead", "How long a healthy destination waits beside one that is dead with a backlog", func(ctx context.Context, b *bench) error {
		d := time.Duration(seconds) * time.Second
		var alone, beside []time.Duration
		var memory int64
		for range rounds {
			latencies, _, err := b.healthy(ctx, d, rate, 0, answers)
			if err != nil {
				return err
			}
			alone = append(alone, latencies...)
			latencies, peak, err := b.healthy(ctx, d, rate, backlog, answers)
			if err != nil {
				return err
			}
			beside, memory = append(beside, latencies...), max(memory, peak)
		}
		fmt.Printf("%d calls a second, %d rounds of %v\n\n", rate, rounds, d)
		fmt.Printf("%-44s %10s %10s\n", "from the request to the webhook", "median", "p99")
		fmt.Printf("%-44s %10v %10v\n", "alone", percentile(alone, 50), percentile(alone, 99))
		fmt.Printf("%-44s %10v %10v\n", fmt.Sprintf("beside a dead one with %d calls waiting", backlog), percentile(beside, 50), percentile(beside, 99))
		fmt.Printf("\nmedian: %.2f times that of alone; RSS of the collector: %d MB at most\n",
			float64(percentile(beside, 50))/float64(percentile(alone, 50)), memory>>20)
		return nil
	})
	flags := cmd.Flags()
	flags.IntVar(&seconds, "seconds", 8, "of each run")
	flags.IntVar(&rounds, "rounds", 2, "of both runs")
	flags.IntVar(&backlog, "backlog", 100_000, "calls that wait for the dead destination")
	flags.IntVar(&rate, "rate", 300, "calls a second")
	flags.IntVar(&answers, "answers", 0, "status with which the dead destination answers all calls (default: it cannot be connected to)")
	return cmd
}

// healthy measures how long a healthy destination waits for its calls, beside a
// dead one if there is to be a backlog. Of two sources one is for the backlog.
func (b *bench) healthy(ctx context.Context, d time.Duration, rate, backlog, answers int) (latencies []time.Duration, peak int64, err error) {
	receiver := harness.NewReceiver()
	defer receiver.Close()
	config := fmt.Sprintf("destinations:\n- {name: healthy, sources: [web], webhooks: [{url: '%s'}]}\n", receiver.URL)
	if backlog > 0 {
		dead, closeDead, err := deadWebhook(answers)
		if err != nil {
			return nil, 0, err
		}
		defer closeDead()
		config += fmt.Sprintf("- {name: dead, webhooks: [{url: '%s'}]}\n", dead)
	}
	c, err := b.collector(config, false)
	if err != nil {
		return nil, 0, err
	}
	defer c.Kill()
	if backlog > 0 {
		fill := load(c.URL, 4, 100)
		fill.WriteKey, fill.Run, fill.Calls = "backlog", 1, int64(backlog)
		fill.Do(ctx, time.Minute)
		time.Sleep(2 * time.Second) // until it is taken to be down
	}
	fresh := load(c.URL, 2, 5)
	fresh.Rate = rate
	limited, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	if err := b.profiled(c.URL, d, func() error { fresh.Do(limited, d); return nil }); err != nil {
		return nil, 0, err
	}
	time.Sleep(time.Second) // until the last is delivered
	usage, err := c.Usage()
	if err != nil {
		return nil, 0, err
	}
	latencies = fresh.Latencies(receiver)
	if missing := fresh.Sent.Load() - int64(len(latencies)); missing > fresh.Sent.Load()/100 {
		return nil, 0, fmt.Errorf("%d of %d calls did not arrive in time", missing, fresh.Sent.Load())
	}
	return latencies, usage.PeakRSS, nil
}

// deadWebhook returns the URL of a webhook that answers all calls with a status, or
// cannot be connected to if that is 0, and what ends it.
func deadWebhook(answers int) (url string, end func(), err error) {
	if answers == 0 {
		address, closePort, err := harness.DeadPort()
		return "http://" + address, func() { _ = closePort() }, err
	}
	receiver := harness.NewReceiver()
	receiver.Answer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(answers) })
	return receiver.URL, receiver.Close, nil
}
