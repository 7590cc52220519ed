package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
)

const (
	// drainTenths is the number of parts of a backlog whose speed is measured.
	drainTenths = 10
	// drainLeast is the smallest backlog. A part of a smaller one is delivered between two reads of the
	// ledger.
	drainLeast = 100_000
)

// drain measures whether a destination keeps its speed while it delivers a long backlog, in any order
// and in the order of users, embedded and on NATS servers. The last part is not measured, because
// fewer calls than slots are left at its end.
func (b *bench) drain() error {
	pending := int64(b.pending)
	if b.quick {
		pending /= 10
	}
	if pending < drainLeast {
		return fmt.Errorf("%d pending calls are too few to measure the speed of their parts: use at least %d", pending, drainLeast)
	}
	fmt.Printf("\nDelivery of %s pending calls, calls/s\n\n| queue | order | first tenth | fastest | slowest | ninth tenth | RSS after the first | after the ninth |\n|---|---|--:|--:|--:|--:|--:|--:|\n", grouped(pending))
	for _, servers := range []int{0, b.cluster.servers} {
		for _, order := range []string{"none", "user"} {
			if err := b.drainOn(servers, order, pending); err != nil {
				return fmt.Errorf("order %s, %d servers: %w", order, servers, err)
			}
		}
		if b.cluster.servers == 0 {
			break
		}
	}
	return nil
}

// drainOn measures one row of the table.
func (b *bench) drainOn(servers int, order string, pending int64) error {
	nodes, stop, err := b.startNodes(servers)
	if err != nil {
		return err
	}
	defer stop()
	r, err := newReceiver()
	if err != nil {
		return err
	}
	defer r.refuse()
	destination := fmt.Sprintf("limits: {concurrency: %d, queue: 8GB}\ndestinations:\n%s  order: %s\n", concurrency, hook("hook", r.url()), order)
	queue := "embedded"
	var c *harness.Collector
	if servers == 0 {
		c, err = b.collector(destination, false)
	} else {
		queue = fmt.Sprintf("%d NATS servers", servers)
		c, err = b.serve(natsConfig(nodes, "drain-"+order) + "\nsources: [{name: web, writeKey: load}]\n" + destination)
	}
	if err != nil {
		return err
	}
	defer c.Kill()
	rates, memory, err := b.fillAndDrain(c, pending)
	if err != nil {
		return err
	}
	last := len(rates) - 1
	fastest, slowest := rates[0], rates[0]
	for _, rate := range rates {
		fastest, slowest = max(fastest, rate), min(slowest, rate)
	}
	cells := []string{queue, order, grouped(rates[0]), grouped(fastest), grouped(slowest), grouped(rates[last]), megabytes(memory[0]), megabytes(memory[last])}
	fmt.Println("| " + strings.Join(cells, " | ") + " |")
	return nil
}

// fillAndDrain fills the queue of a destination, and waits until it is empty. It returns the
// rate and the memory for each tenth of the calls but the last.
func (b *bench) fillAndDrain(c *harness.Collector, pending int64) (rates, memory []int64, err error) {
	backlog := b.calls.load(c.URL)
	backlog.ManyUsers, backlog.Calls = true, pending
	if pending, err = b.fillPaused(c, backlog); err != nil {
		return nil, nil, err
	}
	begin := time.Now()
	for tenth := int64(1); tenth < drainTenths; tenth++ {
		err := b.await(20*time.Millisecond, func() (bool, error) {
			l, err := b.readLedger(c, "")
			return l.Delivered >= pending*tenth/drainTenths, err
		})
		if err != nil {
			return nil, nil, err
		}
		now := time.Now()
		rates = append(rates, int64(float64(pending/drainTenths)/now.Sub(begin).Seconds()))
		begin = now
		usage, err := c.Usage()
		if err != nil {
			return nil, nil, err
		}
		memory = append(memory, usage.RSS)
	}
	return rates, memory, b.awaitDelivered(c)
}
