package service

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/config"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/telemetry"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/jq"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// defaultHistory is the default number of calls in the history. historyBytes limits its
// memory, including attempts.
const (
	defaultHistory = 10_000
	historyBytes   = 32 << 20
)

func openStore(ctx context.Context, o Options) (*storage, error) {
	c := o.Config
	queue, err := jetstream.Open(ctx, journalOptions(o))
	if err != nil {
		return nil, fmt.Errorf("cannot open the queue: %w", err)
	}
	s := &storage{queue: queue, history: history.New(cmp.Or(c.Limits.History, defaultHistory)), plans: newPlans(c)}
	s.history.LimitBytes(historyBytes)
	s.settings, s.state = queue.Settings(), queue.State()
	s.attempts = newAttemptLog(queue.Attempts(), s.history, s.plans, o.Log)
	return s, nil
}

const (
	// clusterTimeout limits the wait for a cluster at the start; clusterPause is the interval
	// between attempts.
	clusterTimeout = 2 * time.Minute
	clusterPause   = time.Second
)

// open opens the queue and starts a collector. It waits for a cluster that is starting or
// electing leaders.
func open(ctx context.Context, o Options, tel *telemetry.Telemetry, observers ...event.Observer) (*storage, *engine.Collector, error) {
	for deadline := time.Now().Add(clusterTimeout); ; {
		s, c, err := tryOpen(ctx, o, tel, observers...)
		if err == nil || o.Config.NATS == nil || !jetstream.Transient(err) || time.Now().After(deadline) {
			return s, c, err
		}
		o.Log.Warn("the cluster is not ready; retrying", "error", err)
		if ended := pause.For(ctx, clusterPause); ended != nil {
			return nil, nil, fmt.Errorf("%w before the cluster was ready: %w", ended, err)
		}
	}
}

func tryOpen(ctx context.Context, o Options, tel *telemetry.Telemetry, observers ...event.Observer) (*storage, *engine.Collector, error) {
	s, err := openStore(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	c, err := openCollector(o, s, tel, observers...)
	if err != nil {
		return nil, nil, errors.Join(err, s.close())
	}
	if err := deleteRemoved(ctx, o, s.queue, c); err != nil {
		s.attempts.close()
		return nil, nil, errors.Join(err, c.Close())
	}
	return s, c, nil
}

// deleteRemoved deletes the destinations that were removed from the configuration while no
// collector ran. Otherwise they would keep receiving calls that no collector delivers. It
// deletes nothing on a cluster, because another collector may still have the destination. There,
// the queue deletes a destination that no collector has.
func deleteRemoved(ctx context.Context, o Options, queue *jetstream.Journal, c *engine.Collector) error {
	ledgers, err := queue.Ledger(ctx)
	if err != nil {
		return fmt.Errorf("cannot read the queue: %w", err)
	}
	for _, l := range ledgers {
		log := o.Log.With("destination", l.Destination, "pending", l.Pending, "failed", l.Failed)
		switch {
		case slices.ContainsFunc(c.Settings().Destinations, func(d tracking.Destination) bool { return d.Name == l.Destination }):
		case o.Config.NATS != nil:
			log.Warn("the cluster has a destination that is not configured here; its calls are kept until no collector has had it for four hours")
		default:
			if err := queue.Detach(ctx, l.Destination); err != nil {
				return err
			}
			log.Warn("deleted a destination that is no longer configured, with its calls")
		}
	}
	return nil
}

func openCollector(o Options, s *storage, tel *telemetry.Telemetry, observers ...event.Observer) (*engine.Collector, error) {
	c := o.Config
	sender, err := senderConfig(c.Egress, o.Dev)
	if err != nil {
		return nil, err
	}
	settings, limits := c.Settings(), c.Limits
	options := engine.Config{
		Sources: settings.Sources, Destinations: settings.Destinations,
		AnyWriteKey: o.Dev, Messages: o.Dev, Strict: c.Strict, HTTPConfig: json.RawMessage(c.HTTPConfig), RedactKey: []byte(c.RedactKey), Transforms: jq.Compile, Limits: c.CollectorLimits(), Concurrency: limits.Concurrency,
		DedupWindow: limits.DedupWindow, DedupCalls: limits.DedupCalls, Seen: s.queue.Seen,
		Sender: sender, WrapTransport: tel.Transport, Journal: tel.Journal(s.queue), Shared: c.NATS != nil, Store: s.settings, State: s.state, History: s.history, Restored: s.attempts.restored,
		Plans: s.plans, Observers: append(slices.Clone(observers), s.attempts), IsHTTPS: o.isHTTPS, ClientOf: o.clientOf, Logger: o.Log,
	}
	if c.NATS == nil { // no other process uses the directory
		options.Instance, options.TempDir = "embedded", c.Data
	} else {
		options.OnStored = s.queue.OnStored
	}
	collector, err := engine.New(options)
	if err != nil {
		return nil, fmt.Errorf("cannot start the collector: %w", err)
	}
	return collector, nil
}

func journalOptions(o Options) jetstream.Options {
	c := o.Config
	options := jetstream.Options{
		Dir: c.Data, SyncInterval: time.Duration(c.Sync), AcceptLoss: o.AcceptLoss, CallBytes: int(c.Limits.BodyBytes),
		MaxBytes: int64(c.Limits.Queue), Keep: c.Limits.Keep, AttemptsBytes: attemptsBytes, Logger: o.Log,
	}
	if n := c.NATS; n != nil {
		options.Name = n.Name
		cluster := n.NATS
		cluster.AcceptLazySync = cluster.AcceptLazySync || o.AcceptLazySync
		options.NATS = &cluster
	}
	return options
}

func senderConfig(e config.Egress, dev bool) (webhook.SenderConfig, error) {
	c := webhook.SenderConfig{Policy: webhook.Policy{AllowLoopback: dev, Allow: append([]netip.Prefix(nil), e.Allow...)}, CAFile: e.CAFile}
	switch e.Proxy {
	case "":
	case config.ProxyEnvironment:
		c.Proxy = http.ProxyFromEnvironment
	default:
		proxy, err := url.Parse(e.Proxy)
		if err != nil {
			return c, fmt.Errorf("egress.proxy: %w", err)
		}
		c.Proxy = http.ProxyURL(proxy)
	}
	return c, nil
}
