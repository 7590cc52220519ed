package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/delivery"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/ingest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/sender"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/users"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// A Collector takes analytics calls over HTTP, keeps them in its journal, and
// forwards each to the destinations that are to get it. It is an http.Handler
// that serves the tracking API. Its methods may be called from many goroutines
// at once.
type Collector struct {
	config   Config
	journal  journal.Journal
	store    state.Store
	history  *history.History
	observer event.Observer
	dedup    *ingest.Dedup
	ingest   *ingest.Handler
	sender   *sender.Sender
	log      *slog.Logger

	started time.Time       // as calls that come then are stamped
	life    context.Context // ends with Close
	end     context.CancelFunc

	users *users.Service // audiences, computed traits and deletion requests

	settings atomic.Pointer[appliedSettings] // replaced by Apply

	draining atomic.Bool
	unready  atomic.Bool // that this was logged
	unfollow func()      // ends following the store, and waits for it

	// changing lets one change of the settings run at a time, with what it asks
	// of the journal and of the store. It guards what follows.
	changing sync.Mutex
	defined  settings.Settings // by the configuration
	stored   storedSettings    // by the store
	closed   bool

	replaying sync.Mutex // lets one Replay run at a time

	mu      sync.Mutex                  // guards workers
	workers map[string]*delivery.Worker // by the names of their destinations
}

// appliedSettings are the settings as requests look at them.
type appliedSettings struct {
	settings.Settings
	defined settings.Settings // those of the configuration alone
	sources *ingest.SourceTable
}

// Remember has a call recognised if it is sent here: another collector that shares
// the journal has stored it.
func (c *Collector) Remember(source, messageID string) { c.dedup.Add(source, messageID) }

// ClientMetrics returns the counters that browsers' libraries sent of themselves,
// such as analytics_js.invoke, summed over their tags. At most 256 names are kept
// apart; others are counted under "other".
func (c *Collector) ClientMetrics() map[string]float64 { return c.ingest.Metrics.Clone() }

// undrained returns the calls that this process took and that were not drained before,
// oldest first, and may drain them.
func (c *Collector) undrained(drain bool) []tracking.Call {
	return slices.DeleteFunc(c.history.Undrained(drain), func(call tracking.Call) bool { return call.ReceivedAt.Before(c.started) })
}

// ServeHTTP serves the tracking API.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.ingest.ServeHTTP(w, r) }

// SourceOf returns the name of the source with a write key.
func (c *Collector) SourceOf(writeKey string) (name string, known bool) {
	return c.settings.Load().sources.SourceOf(writeKey)
}

// Forget makes calls new again: each is taken once more when it is sent again. The
// History keeps what it has of them.
func (c *Collector) Forget(calls []tracking.Record) {
	c.history.Renew(calls)
	for i := range calls {
		c.dedup.Drop(calls[i].Call.Source, calls[i].Call.ID)
	}
}

// ForgetAll makes all calls new again, and the History forgets everything.
func (c *Collector) ForgetAll() {
	c.history.Clear()
	c.dedup.Clear()
}

// History returns what the collector remembers.
func (c *Collector) History() *history.History { return c.history }

// Ledger returns the account of every destination.
func (c *Collector) Ledger(ctx context.Context) ([]tracking.Ledger, error) {
	return c.journal.Ledger(ctx)
}

// Verify proves or refutes the account of every destination. Where the journal
// can count anew what it has stored, it does; that may take a while.
func (c *Collector) Verify(ctx context.Context) ([]journal.Verification, error) {
	if v, ok := c.journal.(journal.Verifier); ok {
		return v.Verify(ctx)
	}
	ledgers, err := c.journal.Ledger(ctx)
	var all []journal.Verification
	for _, l := range ledgers {
		all = append(all, journal.Verification{Ledger: l})
	}
	return all, err
}

// apply brings the collector to its settings. The caller holds changing.
func (c *Collector) apply(ctx context.Context, defined settings.Settings, stored storedSettings) error {
	if err := defined.Validate(); err != nil {
		return fmt.Errorf("mockserver: %w", err)
	}
	all := stored.addedTo(defined)
	if err := all.Validate(); err != nil {
		return fmt.Errorf("mockserver: stored settings: %w", err)
	}
	if c.draining.Load() {
		return state.ErrClosed
	}
	applied := &appliedSettings{Settings: all, defined: defined, sources: ingest.NewSourceTable(all.Sources, c.config.AnyWriteKey)}
	wanted := map[string]bool{}
	for _, d := range all.Destinations {
		wanted[d.Name] = true
		if err := c.attach(ctx, d); err != nil {
			return fmt.Errorf("mockserver: destination %q: %w", d.Name, err)
		}
	}
	for _, w := range c.running() {
		if !wanted[w.Destination().Name] {
			if err := c.detach(ctx, w); err != nil {
				return fmt.Errorf("mockserver: destination %q: %w", w.Destination().Name, err)
			}
		}
	}
	c.defined, c.stored = defined, stored
	c.settings.Store(applied)
	return nil
}

// attach starts a destination, or brings it to its new settings.
func (c *Collector) attach(ctx context.Context, d tracking.Destination) error {
	w := c.worker(d.Name)
	if w != nil && slices.Equal(w.Destination().Sources, d.Sources) {
		w.Update(d, nil)
		return nil
	}
	reader, err := c.journal.Attach(ctx, d.Name, d.Sources)
	if err != nil {
		return err
	}
	if w != nil {
		w.Update(d, reader)
		return nil
	}
	w = delivery.NewWorker(d, reader, delivery.WorkerConfig{
		Sender: c.sender, Observer: c.observer, Log: c.log, Jitter: c.config.Jitter, Concurrency: c.config.Concurrency,
		Timeout: cmp.Or(max(c.config.Sender.Timeout, 0), webhook.Timeout),
		Attach:  func(ctx context.Context) (journal.Reader, error) { return c.attachAgain(ctx, d.Name) },
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.workers[d.Name] = w
	if c.draining.Load() {
		w.Drain() // Drain came while the journal attached it
	}
	w.Start()
	return nil
}

// attachAgain opens the queue of a destination that runs.
func (c *Collector) attachAgain(ctx context.Context, destination string) (journal.Reader, error) {
	if !c.changing.TryLock() {
		return nil, nil // it may be about to be removed, which waits for the caller
	}
	defer c.changing.Unlock()
	return c.journal.Attach(ctx, destination, c.worker(destination).Destination().Sources)
}

func (c *Collector) detach(ctx context.Context, w *delivery.Worker) error {
	name := w.Destination().Name
	w.Stop()
	c.mu.Lock()
	delete(c.workers, name)
	c.mu.Unlock()
	ledgers, err := c.journal.Ledger(ctx)
	if err = errors.Join(err, c.journal.Detach(ctx, name)); err != nil {
		return err
	}
	for _, l := range ledgers {
		if l.Destination == name {
			c.log.Warn("a destination was removed, and is forgotten with its calls", "destination", name, "pending", l.Pending, "failed", l.Failed)
		}
	}
	return nil
}

// worker returns that of a destination, or nil.
func (c *Collector) worker(destination string) *delivery.Worker {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.workers[destination]
}

// running returns the workers by the names of their destinations.
func (c *Collector) running() []*delivery.Worker {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.SortedFunc(maps.Values(c.workers), func(a, b *delivery.Worker) int { return strings.Compare(a.Destination().Name, b.Destination().Name) })
}

// Drain makes Ready fail and begins with no more deliveries; those under way
// go on. Calls are still taken: a load balancer needs a moment to see it.
func (c *Collector) Drain() {
	c.draining.Store(true)
	c.users.Drain()
	for _, w := range c.running() {
		w.Drain()
	}
}

// Shutdown drains the collector, waits for the deliveries under way until ctx
// ends, and then closes it. Calls that are not done stay pending in the journal.
// The HTTP server that serves the collector should have been shut down before.
// It returns ctx's error where it had to break deliveries off.
func (c *Collector) Shutdown(ctx context.Context) error {
	c.Drain()
	var cut error
	for _, w := range c.running() {
		cut = cmp.Or(w.Wait(ctx), cut)
	}
	return errors.Join(cut, c.Close())
}

// Close ends the collector: it stops forwarding, breaks off the requests under
// way, whose calls stay pending, and closes the journal. It may be called again.
// The HTTP server that serves the collector should have been shut down before.
func (c *Collector) Close() error {
	c.Drain()
	c.unfollow()
	c.changing.Lock()
	defer c.changing.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	c.end()
	c.users.Stop()
	running := c.running()
	for _, w := range running {
		w.BreakOff()
	}
	for _, w := range running {
		w.Stop()
	}
	c.users.EndOutcomes()
	c.sender.Close()
	return c.journal.Close()
}

// storedSettings are the sources and destinations that were made while collectors ran.
// Collectors that share a store share them, and what one changes the others apply.
// Written as JSON they hold write keys and shared secrets.
type storedSettings struct {
	Sources      []tracking.Source      `json:"sources,omitempty"`
	Destinations []tracking.Destination `json:"destinations,omitempty"`
	// Paused names the destinations that are paused, also such that the
	// configuration defines.
	Paused []string `json:"paused,omitempty"`

	revision uint64 // the store's; 0 where nothing was stored
}

// addedTo adds what is stored to the settings of the configuration.
// Where both have the same name or write key, the configuration's count.
func (s *storedSettings) addedTo(defined settings.Settings) settings.Settings {
	all := settings.Settings{Sources: slices.Clone(defined.Sources), Destinations: slices.Clone(defined.Destinations)}
	for _, made := range s.Sources {
		same := func(d tracking.Source) bool { return d.Name == made.Name || d.WriteKey == made.WriteKey }
		if !slices.ContainsFunc(defined.Sources, same) {
			all.Sources = append(all.Sources, made)
		}
	}
	for _, d := range s.Destinations {
		if !slices.ContainsFunc(defined.Destinations, settings.DestinationNamed(d.Name)) {
			all.Destinations = append(all.Destinations, d)
		}
	}
	for i := range all.Destinations {
		d := &all.Destinations[i]
		d.Paused = d.Paused || slices.Contains(s.Paused, d.Name)
	}
	return all
}
