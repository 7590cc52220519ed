package engine

import (
	"context"
	"fmt"
	"iter"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/delivery"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/ingest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/routing"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/sender"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/shapes"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/stats"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/users"
)

// New starts a collector. Call Close to stop it. The error contains a *webhook.FieldError for each
// invalid source and destination, or reports that Sender, Journal, Store or State cannot be used.
// After an error, the Journal stays open.
func New(config Config) (*Collector, error) {
	config = config.withDefaults()
	c := &Collector{
		config:  config,
		dedup:   ingest.NewDedup(config.DedupWindow, config.DedupCalls),
		workers: workers{byName: map[string]*delivery.Worker{}},
		started: time.Now().Truncate(time.Millisecond),

		replaying: make(chan struct{}, 1),

		destinationStats: stats.NewDestinations(),
		causes:           stats.NewCauses(),
		shapes:           shapes.New(),
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.gone.store, c.newPauses.store = c.storeGone, c.storePause
	err := checkHTTPConfig(config.HTTPConfig)
	if err != nil {
		return nil, err
	}
	if c.sender, err = sender.New(config.Sender, config.WrapTransport); err != nil {
		return nil, fmt.Errorf("mockserver: %w", err)
	}
	// The History and the replays are notified last, because callers wait for one of them and
	// then read from the other observers.
	others := slices.Concat(config.Observers, event.Observers{config.History})
	c.users = users.New(users.Config{
		Journal: config.Journal, State: config.State, Known: c.dedup, Observer: others, Logger: config.Logger, Settings: c.Settings,
		StoredID:    func(source string) func(string) string { return c.settings.now.Load().sources.StoredID(source) },
		AnyWriteKey: config.AnyWriteKey, SeenSources: func() []string { return config.History.Sources(math.MaxInt) },
		Instance: config.Instance, TempDir: config.TempDir, BatchCalls: config.BatchCalls,
	})
	c.observer = slices.Concat(event.Observers{c.users, c.destinationStats, c.causes, c.shapes}, others, event.Observers{&c.runs})
	c.ingest = ingest.NewHandler(ingest.Config{
		Journal: config.Journal, Observer: c.observer, Dedup: c.dedup, Log: config.Logger, Limits: config.Limits, Strict: config.Strict,
		HTTPConfig: config.HTTPConfig, Plans: config.Plans, RelayID: c.sender.ID,
		Sources: func() *ingest.SourceTable { return c.settings.now.Load().sources },
		Integrations: func(source string) []string {
			return routing.IntegrationsOf(source, c.settings.now.Load().Destinations)
		},
		IsHTTPS: config.IsHTTPS, ClientOf: config.ClientOf,
		Health: http.HandlerFunc(c.serveHealth), Ready: http.HandlerFunc(c.serveReady),
	})
	if err = c.fillDedup(); err == nil {
		err = c.open(settings.Settings{Sources: config.Sources, Destinations: config.Destinations})
	}
	if err != nil {
		c.sender.Close()
		return nil, err
	}
	c.users.Start()
	if !config.Shared { // collectors that share the store would overwrite each other's data
		isCurrent := func(name string, at time.Time) bool {
			w := c.workers.of(name)
			return w != nil && w.Attachment().Covers(at)
		}
		c.shapes.Start(config.State, config.Logger)
		c.destinationStats.Start(config.State, config.Logger, isCurrent)
		c.causes.Start(config.State, config.Logger, isCurrent)
	}
	return c, nil
}

// fillDedup adds the stored calls to duplicate detection.
func (c *Collector) fillDedup() error {
	if c.config.Seen == nil {
		return nil
	}
	if c.config.OnStored != nil {
		c.config.OnStored(c.dedup.Add) // before Seen, so that no call is missed
	}
	var err error
	c.dedup.Fill(func(yield func(string, iter.Seq[string]) bool) {
		err = c.config.Seen(context.Background(), time.Now().Add(-c.config.DedupWindow), c.config.DedupCalls/2, yield)
	})
	if err != nil {
		return fmt.Errorf("mockserver: could not read the stored calls: %w", err)
	}
	return nil
}

// open applies the initial settings, and starts to watch the store for changes.
func (c *Collector) open(defined settings.Settings) error {
	ctx, cancel := context.WithCancel(context.Background())
	changes, err := c.config.Store.Watch(ctx, settingsKey) // before loadStored, so that no change is missed
	if err != nil {
		cancel()
		return fmt.Errorf("mockserver: could not watch the stored settings: %w", err)
	}
	pauses, err := c.config.Store.Watch(ctx, pausesKey)
	if err == nil {
		err = c.loadPauses(ctx) // before the destinations start
	}
	if err != nil {
		cancel()
		return fmt.Errorf("mockserver: could not read the stored Retry-After pauses: %w", err)
	}
	var following sync.WaitGroup
	c.settings.unfollow = func() { cancel(); following.Wait() }
	if err := c.applyStored(ctx, defined); err != nil {
		cancel()
		for _, w := range c.workers.all() {
			w.Stop()
		}
		return err
	}
	following.Go(func() { c.follow(ctx, changes, c.catchUp) })
	following.Go(func() { c.follow(ctx, pauses, c.loadPauses) })
	return nil
}

// applyStored applies the initial settings. Changes that the started destinations cause wait until it
// returns. If it fails, they are refused.
func (c *Collector) applyStored(ctx context.Context, defined settings.Settings) error {
	c.settings.changing.Lock()
	defer c.settings.changing.Unlock()
	stored, err := c.loadStored(ctx)
	if err == nil {
		err = c.apply(ctx, defined, stored, false)
	}
	if err != nil {
		c.cancel()
	}
	return err
}
