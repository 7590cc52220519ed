package mockserver

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// A Collector takes analytics calls over HTTP, keeps them in its journal, and
// forwards each to the destinations that are to get it. It is an http.Handler
// that serves the tracking API. Its methods may be called from many goroutines
// at once.
type Collector struct {
	config  Config
	clock   Clock
	limits  Limits
	journal Journal
	history *History
	record  Recorder
	dedup   *dedup
	sender  *webhook.Sender
	log     *slog.Logger

	settings atomic.Pointer[appliedSettings] // replaced by Apply

	mu         sync.Mutex // guards what follows, and lets one Apply run at a time
	forwarders map[string]*forwarder
	closed     bool
}

// appliedSettings are the settings as requests look at them.
type appliedSettings struct {
	Settings
	sources []knownSource
}

// NewCollector starts a collector. Close ends it.
func NewCollector(config Config) (*Collector, error) {
	config = config.withDefaults()
	sender, err := webhook.NewSender(config.Sender)
	if err != nil {
		return nil, fmt.Errorf("mockserver: %w", err)
	}
	c := &Collector{
		config: config, clock: config.Clock, limits: config.Limits,
		journal: config.Journal, history: config.History, record: recorders{config.History},
		dedup:  newDedup(config.Clock, config.DedupWindow, config.DedupCalls),
		sender: sender, log: config.Logger, forwarders: map[string]*forwarder{},
	}
	if config.Recorder != nil {
		c.record = recorders{config.History, config.Recorder}
	}
	if err := c.Apply(context.Background(), Settings{Sources: config.Sources, Destinations: config.Destinations}); err != nil {
		sender.Close()
		return nil, err
	}
	return c, nil
}

// ServeHTTP serves the tracking API.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.serveTracking(w, r) }

// History returns what the collector remembers.
func (c *Collector) History() *History { return c.history }

// Ledger returns the account of every destination.
func (c *Collector) Ledger(ctx context.Context) ([]Ledger, error) { return c.journal.Ledger(ctx) }

// Settings returns the settings that apply.
func (c *Collector) Settings() Settings { return c.settings.Load().Settings }

// Apply replaces the settings. Calls that are accepted meanwhile are not lost: a
// destination that stays goes on where it is, one that is new gets the calls that
// come from now on, and one that is gone is forgotten with what it had pending.
// If Apply fails, the settings that it did not come to stay as they were.
func (c *Collector) Apply(ctx context.Context, s Settings) error {
	if err := s.Validate(); err != nil {
		return fmt.Errorf("mockserver: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errors.New("mockserver: the collector is closed")
	}
	applied := &appliedSettings{Settings: s}
	for _, source := range s.Sources {
		applied.sources = append(applied.sources, knownSource{source.Name, sha256.Sum256([]byte(source.WriteKey))})
	}
	wanted := map[string]bool{}
	for _, d := range s.Destinations {
		wanted[d.Name] = true
		if err := c.attach(ctx, d); err != nil {
			return fmt.Errorf("mockserver: destination %q: %w", d.Name, err)
		}
	}
	for name, f := range c.forwarders {
		if !wanted[name] {
			f.stop()
			delete(c.forwarders, name)
			if err := c.journal.Detach(ctx, name); err != nil {
				return fmt.Errorf("mockserver: destination %q: %w", name, err)
			}
		}
	}
	c.settings.Store(applied)
	return nil
}

// attach starts a destination, or brings it to its new settings.
func (c *Collector) attach(ctx context.Context, d Destination) error {
	f := c.forwarders[d.Name]
	if f != nil && slices.Equal(f.settings.Load().Sources, d.Sources) {
		f.settings.Store(&d)
		return nil
	}
	reader, err := c.journal.Attach(ctx, d.Name, d.Sources)
	if err != nil {
		return err
	}
	if f != nil {
		f.settings.Store(&d)
		f.set(func() { f.reader = reader })
		return nil
	}
	f = &forwarder{
		name: d.Name, sender: c.sender, clock: c.clock, record: c.record, log: c.log,
		breaker: newBreaker(c.clock), reader: reader, done: make(chan struct{}),
		slots: make(chan struct{}, c.config.Concurrency), waiting: make(chan struct{}, stragglers),
	}
	f.settings.Store(&d)
	run, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	c.forwarders[d.Name] = f
	go f.run(run)
	return nil
}

// stop ends the forwarder. Requests under way are broken off; their calls stay
// pending.
func (f *forwarder) stop() {
	f.cancel()
	<-f.done
	f.requests.Wait()
}

// Pause stops attempts to a destination until Resume. Its calls wait in the
// journal, and their four hours go on.
func (c *Collector) Pause(destination string) error { return c.pause(destination, true) }

// Resume ends a Pause.
func (c *Collector) Resume(destination string) error { return c.pause(destination, false) }

func (c *Collector) pause(destination string, paused bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.forwarders[destination]
	if f == nil {
		return fmt.Errorf("mockserver: there is no destination %q", destination)
	}
	f.set(func() { f.paused = paused })
	return nil
}

// Close ends the collector: it stops forwarding, breaks off the requests under
// way, whose calls stay pending, and closes the journal. It may be called again.
// The HTTP server that serves the collector should have been shut down before.
func (c *Collector) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	for _, f := range c.forwarders {
		f.cancel()
	}
	for _, f := range c.forwarders {
		f.stop()
	}
	c.sender.Close()
	return c.journal.Close()
}
