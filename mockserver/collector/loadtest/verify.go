package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
)

func newVerify() *cobra.Command {
	var pending, delivered int64
	var batch, senders int
	cmd := newMeasurement("verify", "What the proof of the ledger takes, of calls that are pending and of calls that were delivered", func(ctx context.Context, b *bench) error {
		fmt.Printf("%-40s %12s %12s %12s\n", "", "time", "RSS, idle", "RSS, most")
		dead, closeDead, err := harness.DeadPort()
		if err != nil {
			return err
		}
		defer func() { _ = closeDead() }()
		receiver := harness.NewReceiver()
		defer receiver.Close()
		for _, proof := range []struct {
			calls          int64
			webhook, state string
		}{{pending, "http://" + dead, "pending"}, {delivered, receiver.URL, "delivered"}} {
			if proof.calls == 0 {
				continue
			}
			calls := load("", senders, batch)
			calls.Calls = proof.calls
			if err := b.verify(ctx, calls, proof.webhook, proof.state); err != nil {
				return err
			}
		}
		return nil
	})
	flags := cmd.Flags()
	flags.Int64Var(&pending, "pending", 1_000_000, "calls that are pending")
	flags.Int64Var(&delivered, "delivered", 200_000, "calls that were delivered")
	flags.IntVar(&batch, "batch", 100, "calls in a batch")
	flags.IntVar(&senders, "senders", 8, "senders at once, whose batches may share a message of the queue")
	return cmd
}

// verify stores calls for a webhook and has a collector that was started after them
// prove the ledger. They are to be pending then, or delivered.
func (b *bench) verify(ctx context.Context, load *harness.Load, webhook, state string) error {
	config := "sync: 1s\n" + forwarding(webhook)
	c, err := b.collector(config, false)
	if err != nil {
		return err
	}
	load.URLs[0] = c.URL
	load.Do(ctx, time.Minute)
	if state == "delivered" {
		err = awaitDelivered(ctx, c)
	}
	c.Kill()
	if err != nil {
		return err
	}
	if c, err = b.collector(config, true); err != nil {
		return err
	}
	defer c.Kill()
	idle, err := resting(c)
	if err != nil {
		return err
	}
	if err := c.ForgetPeak(); err != nil {
		return err
	}
	begin := time.Now()
	l, err := readLedger(ctx, c, "?verify=true")
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
	fmt.Printf("%-40s %12v %9d MB %9d MB\n", fmt.Sprintf("%d calls %s", load.Calls, state), took.Round(time.Millisecond), idle.RSS>>20, after.PeakRSS>>20)
	return nil
}
