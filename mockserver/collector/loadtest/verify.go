package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/harness"
)

func newVerify() *cobra.Command {
	var pending, delivered int64
	var load harness.Load
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
			dead, closeDead, err := harness.DeadPort()
			if err != nil {
				return err
			}
			defer func() { _ = closeDead() }()
			if load.Calls = pending; load.Calls > 0 {
				if err := b.verify(cmd.Context(), &load, "http://"+dead, "pending"); err != nil {
					return err
				}
			}
			receiver := harness.NewReceiver()
			defer receiver.Close()
			if load.Calls = delivered; load.Calls > 0 {
				return b.verify(cmd.Context(), &load, receiver.URL, "delivered")
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.Int64Var(&pending, "pending", 1_000_000, "calls that are pending")
	flags.Int64Var(&delivered, "delivered", 200_000, "calls that were delivered")
	flags.IntVar(&load.Batch, "batch", 100, "calls in a batch")
	flags.IntVar(&load.Senders, "senders", 8, "senders at once, whose batches may share a message of the queue")
	flags.StringVar(&dir, "dir", "", "where the queue is, for its time (default: the system's temporary directory)")
	return cmd
}

// verify stores calls for a webhook and has a collector that was started after them
// prove the ledger. They are to be pending then, or delivered.
func (b *bench) verify(ctx context.Context, load *harness.Load, webhook, state string) error {
	config := fmt.Sprintf("sync: 1s\ndestinations: [{name: crm, webhooks: [{url: '%s'}]}]\n", webhook)
	c, err := b.collector(config, false)
	if err != nil {
		return err
	}
	load.URLs, load.WriteKey, load.CallSize = []string{c.URL}, "load", 800
	load.Sent.Store(0)
	load.Do(ctx, time.Minute)
	if state == "delivered" {
		err = awaitDelivered(ctx, c.URL)
	}
	c.Kill()
	if err != nil {
		return err
	}
	if c, err = b.collector(config, true); err != nil {
		return err
	}
	defer c.Kill()
	var idle starts
	if err := idle.rest(c); err != nil {
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
	if l.Accepted < load.Calls || !l.Holds {
		return fmt.Errorf("%d calls were accepted, but what is proved is %+v", load.Calls, l)
	}
	fmt.Printf("%-40s %12v %9d MB %9d MB\n", fmt.Sprintf("%d calls %s", load.Calls, state), took.Round(time.Millisecond), idle.idle>>20, after.PeakRSS>>20)
	return nil
}

// awaitDelivered waits until nothing is pending.
func awaitDelivered(ctx context.Context, collector string) error {
	for {
		l, err := readLedger(ctx, collector, "")
		if err != nil || l.Pending == 0 {
			return err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
