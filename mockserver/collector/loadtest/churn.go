package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/harness"
)

func newChurn() *cobra.Command {
	var minutes, rate int
	var every time.Duration
	var queue, dir string
	cmd := &cobra.Command{
		Use:   "churn",
		Short: "Memory and the data directory while calls come and go",
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := newBench(cmd, dir)
			if err != nil {
				return err
			}
			defer b.close()
			return b.churn(cmd.Context(), time.Duration(minutes)*time.Minute, every, rate, queue)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&minutes, "minutes", 30, "in all")
	flags.DurationVar(&every, "every", time.Minute, "between two lines")
	flags.IntVar(&rate, "rate", 2000, "calls a second")
	flags.StringVar(&queue, "queue", "64MB", "limits.queue: beyond three quarters of it, calls that were delivered are removed")
	flags.StringVar(&dir, "dir", "", "where the queue is, for its time (default: the system's temporary directory)")
	return cmd
}

// churn prints what a collector holds while calls are delivered as they come.
func (b *bench) churn(ctx context.Context, d, every time.Duration, rate int, queue string) error {
	url, receiver, err := b.receiver()
	if err != nil {
		return err
	}
	defer receiver.Kill()
	c, err := b.collector(fmt.Sprintf("limits: {queue: %s}\ndestinations: [{name: hook, webhooks: [{url: '%s'}]}]\n", queue, url), false)
	if err != nil {
		return err
	}
	defer c.Kill()
	ctx, stop := context.WithTimeout(ctx, d)
	defer stop()
	load := &harness.Load{URLs: []string{c.URL}, WriteKey: "load", Senders: 4, Batch: 20, CallSize: 800, Rate: rate}
	ended := make(chan struct{})
	go func() {
		load.Do(ctx, time.Minute)
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
	l, err := readLedger(context.Background(), c.URL, "")
	if err != nil {
		return err
	}
	usage, err := c.Usage()
	if err != nil {
		return err
	}
	heap, system, err := goMemory(c.URL)
	if err != nil {
		return err
	}
	all, streams, err := sizes(filepath.Join(b.dir, "data"))
	if err != nil {
		return err
	}
	fmt.Printf("%8v %10d %8d %8.0f %8.0f %8d  ", after.Round(time.Second), l.Delivered, usage.RSS>>20, heap/(1<<20), system/(1<<20), all>>20)
	for _, name := range []string{"CALLS", "OUTCOMES", "RETRY", "FAILED", "ATTEMPTS", "STATE"} {
		fmt.Printf(" %s %d", name, streams["analytics-"+name]>>20)
	}
	fmt.Println()
	return nil
}

// goMemory reads from a collector's metrics what its heap has in use, and what Go has
// from the system.
func goMemory(url string) (heap, system float64, err error) {
	res, err := http.Get(url + "/metrics")
	if err != nil {
		return 0, 0, err
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		n, err := strconv.ParseFloat(value, 64)
		switch {
		case err != nil:
		case name == "go_memstats_heap_inuse_bytes":
			heap = n
		case name == "go_memstats_sys_bytes":
			system = n
		}
	}
	return heap, system, lines.Err()
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
