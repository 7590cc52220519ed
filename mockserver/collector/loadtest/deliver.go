package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/harness"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

func newDeliver() *cobra.Command {
	var seconds, rounds, concurrency int
	var dir, profile string
	cmd := &cobra.Command{
		Use:   "deliver",
		Short: "Deliveries a second out of the queue, beside a bare http.Client loop",
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := newBench(cmd, dir)
			if err != nil {
				return err
			}
			defer b.close()
			b.profile = profile
			duration := time.Duration(seconds) * time.Second
			var bare, ours deliveries
			for range rounds {
				if err := b.deliverBare(&bare, duration, concurrency); err != nil {
					return err
				}
				if err := b.deliver(cmd.Context(), &ours, duration, concurrency); err != nil {
					return err
				}
			}
			fmt.Printf("%d requests at once, %d rounds of %v, medians\n\n", concurrency, rounds, duration)
			fmt.Printf("%-12s %12s %22s\n", "", "requests/s", "sender CPU, µs/request")
			bare.print("bare loop")
			ours.print("collector")
			fmt.Printf("\n%.0f %% of the bare loop\n", 100*median(ours.rates)/median(bare.rates))
			return nil
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&seconds, "seconds", 5, "of each run")
	flags.IntVar(&rounds, "rounds", 3, "of both runs")
	flags.IntVar(&concurrency, "concurrency", 64, "requests at once")
	flags.StringVar(&dir, "dir", "", "where the queue is, for its time (default: the system's temporary directory)")
	flags.StringVar(&profile, "cpuprofile", "", "write a CPU profile of the collector, of the last run")
	return cmd
}

// receiver starts a receiver in a process of its own.
func (b *bench) receiver() (string, *harness.Process, error) {
	address, err := harness.FreeAddress()
	if err != nil {
		return "", nil, err
	}
	p, err := b.self("null-server", address)
	if err != nil {
		return "", nil, err
	}
	return "http://" + address, p, awaitListener(address)
}

// deliveries are what several runs reached.
type deliveries struct {
	rates []float64       // requests a second
	cpu   []time.Duration // of the sender, for a request
}

func (d *deliveries) add(rate float64, cpu time.Duration) {
	d.rates, d.cpu = append(d.rates, rate), append(d.cpu, cpu)
}

func (d *deliveries) print(name string) {
	fmt.Printf("%-12s %12.0f %22.1f\n", name, median(d.rates), float64(median(d.cpu).Nanoseconds())/1000)
}

// deliverBare measures a program that does nothing but post one payload.
func (b *bench) deliverBare(to *deliveries, d time.Duration, concurrency int) error {
	url, receiver, err := b.receiver()
	if err != nil {
		return err
	}
	defer receiver.Kill()
	p, err := b.self("bare-sender", url, d.String(), strconv.Itoa(concurrency))
	if err != nil {
		return err
	}
	if err := p.Wait(); err != nil {
		return fmt.Errorf("%w: %s", err, p.Log())
	}
	var rate float64
	var all int64
	if _, err := fmt.Sscan(p.Log(), &rate, &all); err != nil {
		return err
	}
	to.add(rate, p.CPU()/time.Duration(all))
	return nil
}

// deliver fills the queue of a paused destination and then lets it go.
func (b *bench) deliver(ctx context.Context, to *deliveries, d time.Duration, concurrency int) error {
	url, receiver, err := b.receiver()
	if err != nil {
		return err
	}
	defer receiver.Kill()
	c, err := b.collector(fmt.Sprintf("limits: {concurrency: %d}\ndestinations: [{name: hook, sharedSecret: s3cret, webhooks: [{url: '%s'}]}]\n", concurrency, url), false)
	if err != nil {
		return err
	}
	defer c.Kill()
	if err := ask(ctx, c.URL, "POST", "/destinations/hook/pause", nil); err != nil {
		return err
	}
	load := &harness.Load{URLs: []string{c.URL}, WriteKey: "load", Senders: 4, Batch: 100, CallSize: 800, Calls: int64(d.Seconds()) * 50_000}
	load.Do(ctx, time.Minute)
	if err := ask(ctx, c.URL, "POST", "/destinations/hook/resume", nil); err != nil {
		return err
	}
	time.Sleep(d / 5) // warm up
	failed := b.profiled(c.URL, d, func() { err = to.measure(ctx, c, d) })
	return errors.Join(err, failed)
}

// measure counts what is delivered in a time.
func (d *deliveries) measure(ctx context.Context, c *harness.Collector, duration time.Duration) error {
	before, err := readLedger(ctx, c.URL, "")
	if err != nil {
		return err
	}
	used, err := c.Usage()
	if err != nil {
		return err
	}
	start := time.Now()
	time.Sleep(duration)
	after, err := readLedger(ctx, c.URL, "")
	if err != nil {
		return err
	}
	took := time.Since(start)
	usage, err := c.Usage()
	if err != nil {
		return err
	}
	if after.Pending == 0 {
		return fmt.Errorf("the queue was empty before %v had passed; %d calls were delivered", duration, after.Delivered)
	}
	n := after.Delivered - before.Delivered
	d.add(float64(n)/took.Seconds(), (usage.CPU-used.CPU)/time.Duration(max(n, 1)))
	return nil
}

// newBareSender is what the collector is compared with.
func newBareSender() *cobra.Command {
	return &cobra.Command{
		Use: "bare-sender URL DURATION CONCURRENCY", Hidden: true, Args: cobra.ExactArgs(3),
		RunE: func(_ *cobra.Command, args []string) error {
			d, err := time.ParseDuration(args[1])
			if err != nil {
				return err
			}
			concurrency, err := strconv.Atoi(args[2])
			if err != nil {
				return err
			}
			rate, all := bareRate(args[0], d, concurrency)
			fmt.Fprintln(os.Stdout, rate, all)
			return nil
		},
	}
}

// bareRate posts one payload in a loop. It returns how many a second it did, and
// how many in all, with those to warm up.
func bareRate(url string, d time.Duration, concurrency int) (rate float64, all int64) {
	payload := `{"version":1,"type":"track","userId":"user-12345","event":"Order Completed","properties":{"revenue":129.9` +
		strings.Repeat(`,"property":"value 7919 of 12"`, 18) + `},"timestamp":"2026-01-02T03:04:05.678Z"}`
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: concurrency}, Timeout: webhook.Timeout}
	var done atomic.Int64
	var senders sync.WaitGroup
	loop := func(until time.Time) {
		for range concurrency {
			senders.Go(func() {
				for time.Now().Before(until) {
					res, err := client.Post(url, "application/json", strings.NewReader(payload))
					if err != nil {
						continue
					}
					buf := make([]byte, 512)
					for err == nil {
						_, err = res.Body.Read(buf)
					}
					_ = res.Body.Close()
					done.Add(1)
				}
			})
		}
		senders.Wait()
	}
	loop(time.Now().Add(d / 5)) // warm up
	warm, start := done.Load(), time.Now()
	loop(start.Add(d))
	return float64(done.Load()-warm) / time.Since(start).Seconds(), done.Load()
}
