package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
)

func newChurn() *cobra.Command {
	var minutes, rate int
	var every time.Duration
	var queue string
	cmd := newMeasurement("churn", "Memory and the data directory while calls come and go", func(ctx context.Context, b *bench) error {
		return b.churn(ctx, time.Duration(minutes)*time.Minute, every, rate, queue)
	})
	flags := cmd.Flags()
	flags.IntVar(&minutes, "minutes", 30, "in all")
	flags.DurationVar(&every, "every", time.Minute, "between two lines")
	flags.IntVar(&rate, "rate", 2000, "calls a second")
	flags.StringVar(&queue, "queue", "64MB", "limits.queue: beyond three quarters of it, calls that were delivered are removed")
	return cmd
}

// churn prints what a collector holds while calls are delivered as they come.
func (b *bench) churn(ctx context.Context, d, every time.Duration, rate int, queue string) error {
	url, receiver, err := b.nullServer()
	if err != nil {
		return err
	}
	defer receiver.Kill()
	c, err := b.collector(fmt.Sprintf("limits: {queue: %s}\n%s", queue, forwarding(url)), false)
	if err != nil {
		return err
	}
	defer c.Kill()
	ctx, stop := context.WithTimeout(ctx, d)
	defer stop()
	calls := load(c.URL, 4, 20)
	calls.Rate = rate
	ended := make(chan struct{})
	go func() {
		calls.Do(ctx, time.Minute)
		close(ended)
	}()
	fmt.Printf("%8s %10s %8s %8s %8s %8s   %s\n", "after", "delivered", "RSS", "heap", "Go", "data", "MB of each stream")
	begin := time.Now()
	for tick := time.NewTicker(every); ; {
		select {
		case <-tick.C:
		case <-ended:
			return nil
		}
		if err := b.printHeld(c, time.Since(begin)); err != nil {
			return err
		}
	}
}

// printHeld prints what a collector holds now, in megabytes.
func (b *bench) printHeld(c *harness.Collector, after time.Duration) error {
	l, err := readLedger(context.Background(), c, "")
	if err != nil {
		return err
	}
	usage, err := c.Usage()
	if err != nil {
		return err
	}
	metrics, err := c.Metrics(context.Background())
	if err != nil {
		return err
	}
	all, streams, err := sizes(filepath.Join(b.dir, "data"))
	if err != nil {
		return err
	}
	fmt.Printf("%8v %10d %8d %8.0f %8.0f %8d  ", after.Round(time.Second), l.Delivered, usage.RSS>>20, metrics["go_memstats_heap_inuse_bytes"]/(1<<20), metrics["go_memstats_sys_bytes"]/(1<<20), all>>20)
	for _, name := range []string{"CALLS", "OUTCOMES", "RETRY", "FAILED", "ATTEMPTS", "STATE"} {
		fmt.Printf(" %s %d", name, streams["analytics-"+name]>>20)
	}
	fmt.Println()
	return nil
}

// sizes returns how many bytes the files of a data directory have, and those of each
// stream.
func sizes(dir string) (all int64, streams map[string]int64, err error) {
	streams = map[string]int64{}
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return ignoreRemoved(err)
		}
		info, err := entry.Info()
		if err != nil {
			return ignoreRemoved(err)
		}
		all += info.Size()
		if _, rest, found := strings.Cut(filepath.ToSlash(path), "/streams/"); found {
			name, _, _ := strings.Cut(rest, "/")
			streams[name] += info.Size()
		}
		return nil
	})
	return all, streams, err
}

// ignoreRemoved passes over what the collector has removed meanwhile.
func ignoreRemoved(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
