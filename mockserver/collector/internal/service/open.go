package service

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/config"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// defaultHistory is how many calls are remembered for the admin API: with what
// was sent and answered they take some kilobytes each.
const defaultHistory = 5000

// openCollector opens the queue and starts a collector on it.
func openCollector(ctx context.Context, o Options, recorder mockserver.Recorder) (*mockserver.Collector, error) {
	c := o.Config
	settings := c.Settings()
	sender, err := senderConfig(c.Egress, o.Dev)
	if err != nil {
		return nil, err
	}
	queue, err := journal.Open(ctx, journalOptions(c, o.Log))
	if err != nil {
		return nil, fmt.Errorf("the queue cannot be opened: %w", err)
	}
	history := c.Limits.History
	if history == 0 {
		history = defaultHistory
	}
	collector, err := mockserver.NewCollector(mockserver.Config{
		Sources: settings.Sources, Destinations: settings.Destinations,
		AnyWriteKey: o.Dev, Strict: c.Strict, Limits: c.CollectorLimits(),
		DedupWindow: time.Duration(c.Limits.DedupWindow), DedupCalls: c.Limits.DedupCalls, Concurrency: c.Limits.Concurrency,
		Sender: sender, Journal: queue, History: mockserver.NewHistory(history), Recorder: recorder, Logger: o.Log,
	})
	if err != nil {
		_ = queue.Close()
		return nil, fmt.Errorf("the collector cannot start: %w", err)
	}
	return collector, nil
}

func journalOptions(c *config.Config, log *slog.Logger) journal.Options {
	o := journal.Options{
		Dir: c.Data, SyncInterval: time.Duration(c.Sync),
		MaxBytes: int64(c.Limits.Queue), Keep: time.Duration(c.Limits.Keep), Logger: log,
	}
	if n := c.NATS; n != nil {
		o.Name = n.Name
		o.NATS = &journal.NATS{
			URL: n.URL, Credentials: n.Credentials, CAFile: n.CAFile,
			CertFile: n.CertFile, KeyFile: n.KeyFile, Replicas: n.Replicas,
		}
	}
	return o
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
