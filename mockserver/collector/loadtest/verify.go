package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/harness"
)

func newVerify() *cobra.Command {
	var pending, delivered, batch, senders int
	var dir string
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "What the proof of the ledger takes, of calls that are pending and of calls that were delivered",
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := newBench(cmd, dir)
			if err != nil {
				return err
			}
			defer b.close()
			fmt.Printf("%-40s %12s %12s %12s\n", "", "time", "RSS, idle", "RSS, most")
			if err := b.verifyPending(cmd.Context(), pending, batch, senders); err != nil {
				return err
			}
			return b.verifyDelivered(cmd.Context(), delivered, batch, senders)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&pending, "pending", 1_000_000, "calls that are pending")
	flags.IntVar(&delivered, "delivered", 1_000_000, "calls that were delivered, which takes about two minutes for a million")
	flags.IntVar(&batch, "batch", 100, "calls in a batch")
	flags.IntVar(&senders, "senders", 8, "that send at once: their batches may share a message of the queue")
	flags.StringVar(&dir, "dir", "", "where the queue is, for its time (default: the system's temporary directory)")
	return cmd
}

// verifyPending measures the proof of calls for a destination that takes none.
func (b *bench) verifyPending(ctx context.Context, calls, batch, senders int) error {
	dead, closeDead, err := harness.DeadPort()
	if err != nil {
		return err
	}
	defer func() { _ = closeDead() }()
	return b.verify(ctx, "http://"+dead, calls, batch, senders, fmt.Sprintf("%d calls pending", calls), func(string) error { return nil })
}

// verifyDelivered measures it of calls for one that takes all.
func (b *bench) verifyDelivered(ctx context.Context, calls, batch, senders int) error {
	receiver := harness.NewReceiver()
	defer receiver.Close()
	return b.verify(ctx, receiver.URL, calls, batch, senders, fmt.Sprintf("%d calls delivered", calls), func(collector string) error {
		for {
			l, err := readLedger(ctx, collector, "")
			if err != nil || l.Pending == 0 {
				return err
			}
			if err := sleep(ctx, 100*time.Millisecond); err != nil {
				return err
			}
		}
	})
}

// verify stores calls for a webhook, starts the collector again when await returns, so
// that it holds nothing any more, and has it prove the ledger.
func (b *bench) verify(ctx context.Context, webhook string, calls, batch, senders int, what string, await func(collector string) error) error {
	config := fmt.Sprintf("sync: 1s\ndestinations: [{name: crm, webhooks: [{url: '%s'}]}]\n", webhook)
	c, err := b.collector(config, false)
	if err != nil {
		return err
	}
	load := &harness.Load{URLs: []string{c.URL}, WriteKey: "load", Senders: senders, Noise: os.Getenv("NOISE") != "", Batch: batch, CallSize: 800, Calls: int64(calls)}
	load.Do(ctx, time.Minute)
	err = await(c.URL)
	c.Kill()
	if err != nil {
		return err
	}
	if c, err = b.collector(config, true); err != nil {
		return err
	}
	defer c.Kill()
	if err := sleep(ctx, settleIdle); err != nil {
		return err
	}
	before, err := c.Usage()
	if err != nil {
		return err
	}
	if err := c.ForgetPeak(); err != nil {
		return err
	}
	begin := time.Now()
	l, err := readLedger(ctx, c.URL, "?verify=true")
	took := time.Since(begin)
	if err != nil {
		return err
	}
	after, err := c.Usage()
	if err != nil {
		return err
	}
	if l.Accepted < int64(calls) || !l.Holds {
		return fmt.Errorf("%d calls were accepted, but what is proved is %+v", calls, l)
	}
	fmt.Printf("%-40s %12v %9d MB %9d MB\n", what, took.Round(time.Millisecond), before.RSS>>20, after.PeakRSS>>20)
	return nil
}

// A provedLedger is what the admin API says of a destination.
type provedLedger struct {
	Accepted, Pending int64
	Holds             bool
	Problems          []string
}

// readLedger asks a collector for the ledger of its only destination.
func readLedger(ctx context.Context, collector, query string) (l provedLedger, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, collector+"/api/v1/ledger"+query, nil)
	if err != nil {
		return l, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return l, err
	}
	defer res.Body.Close()
	var answer struct{ Destinations []provedLedger }
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return l, err
	}
	if len(answer.Destinations) != 1 {
		return l, fmt.Errorf("the ledger has %d destinations instead of one", len(answer.Destinations))
	}
	return answer.Destinations[0], nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
