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
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/config"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/jq"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// defaultHistory is the default number of calls in the history. historyBytes limits its
// memory, including attempts.
const (
	defaultHistory = 10_000
	historyBytes   = 32 << 20
)

const (
	// clusterTimeout limits the wait for a cluster at the start; clusterPause is the interval
	// between attempts.
	clusterTimeout = 2 * time.Minute
	clusterPause   = time.Second
)

// open opens the queue and starts a collector. It waits for a cluster that is starting or
// electing leaders.
func (s *Service) open(ctx context.Context) error {
	for deadline := time.Now().Add(clusterTimeout); ; {
		err := s.tryOpen(ctx)
		if err == nil || s.options.Config.NATS == nil || !jetstream.Transient(err) || time.Now().After(deadline) {
			return err
		}
		s.log.Warn("the cluster is not ready; retrying", "error", err)
		if ended := pause.For(ctx, clusterPause); ended != nil {
			return fmt.Errorf("%w before the cluster was ready: %w", ended, err)
		}
	}
}

func (s *Service) tryOpen(ctx context.Context) (err error) {
	if s.queue, err = jetstream.Open(ctx, s.journalOptions()); err != nil {
		return fmt.Errorf("cannot open the queue: %w", err)
	}
	c := s.options.Config
	calls := history.New(cmp.Or(c.Limits.History, defaultHistory))
	calls.LimitBytes(historyBytes)
	s.plans = newPlans(c)
	s.attempts = newAttemptLog(s.queue.Attempts(), calls, s.plans, s.log)
	if s.collector, err = s.newCollector(calls); err != nil {
		return errors.Join(err, s.queue.Close())
	}
	if err := s.deleteRemoved(ctx); err != nil {
		return errors.Join(err, s.collector.Close())
	}
	return nil
}

// deleteRemoved deletes the destinations that were removed from the configuration while no
// collector ran. Otherwise they would keep receiving calls that no collector delivers. It
// deletes nothing on a cluster, because another collector may still have the destination. There,
// the queue deletes a destination that no collector has.
func (s *Service) deleteRemoved(ctx context.Context) error {
	ledgers, err := s.queue.Ledger(ctx)
	if err != nil {
		return fmt.Errorf("cannot read the queue: %w", err)
	}
	for _, l := range ledgers {
		log := s.log.With("destination", l.Destination, "pending", l.Pending, "failed", l.Failed)
		switch {
		case s.collector.Settings().Destination(l.Destination) != nil:
		case s.options.Config.NATS != nil:
			log.Warn("the cluster has a destination that is not configured here; its calls are kept until no collector has had it for four hours")
		default:
			if err := s.queue.Detach(ctx, l.Destination); err != nil {
				return err
			}
			log.Warn("deleted a destination that is no longer configured, with its calls")
		}
	}
	return nil
}

func (s *Service) newCollector(calls *history.History) (*engine.Collector, error) {
	o, c := &s.options, s.options.Config
	sender, err := senderConfig(c.Egress, o.Dev)
	if err != nil {
		return nil, err
	}
	settings, limits := c.Settings(), c.Limits
	options := engine.Config{
		Sources: settings.Sources, Destinations: settings.Destinations,
		AnyWriteKey: o.Dev, Messages: o.Dev, Strict: c.Strict, HTTPConfig: json.RawMessage(c.HTTPConfig), RedactKey: []byte(c.RedactKey), Transforms: jq.Compile, Limits: c.CollectorLimits(), Concurrency: limits.Concurrency,
		DedupWindow: limits.DedupWindow, DedupCalls: limits.DedupCalls, Seen: s.queue.Seen,
		Sender: sender, WrapTransport: s.telemetry.Transport, Journal: s.telemetry.Journal(s.queue), Shared: c.NATS != nil, Store: s.queue.Settings(), State: s.queue.State(), History: calls, Restored: s.attempts.restored,
		Plans: s.plans, Observers: []event.Observer{s.metrics, s.alerter, s.attempts}, Logger: s.log,
	}
	if s.admin == nil { // otherwise the admin listener has its own trusted proxies
		options.IsHTTPS, options.ClientOf = s.guard.IsHTTPS, s.guard.ClientOf
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

func (s *Service) journalOptions() jetstream.Options {
	o, c := &s.options, s.options.Config
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
