package mockserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// A Collector takes analytics calls over HTTP, keeps them in its journal, and
// forwards each to the destinations that are to get it. It is an http.Handler
// that serves the tracking API. Its methods may be called from many goroutines
// at once.
type Collector struct {
	config   EngineConfig
	journal  Journal
	store    StateStore
	history  *History
	observer Observer
	dedup    *dedup
	ingest   *ingestHandler
	sender   *webhook.Sender
	log      *slog.Logger

	started time.Time       // as calls that come then are stamped
	life    context.Context // ends with Close
	end     context.CancelFunc

	*usersService // audiences, computed traits and deletion requests

	settings atomic.Pointer[appliedSettings] // replaced by Apply

	draining atomic.Bool
	unready  atomic.Bool // that this was logged
	unfollow func()      // ends following the store, and waits for it

	// changing lets one change of the settings run at a time, with what it asks
	// of the journal and of the store. It guards what follows.
	changing sync.Mutex
	defined  Settings       // by the configuration
	stored   storedSettings // by the store
	closed   bool

	replaying sync.Mutex // lets one Replay run at a time

	mu      sync.Mutex         // guards workers
	workers map[string]*worker // by the names of their destinations
}

// appliedSettings are the settings as requests look at them.
type appliedSettings struct {
	Settings
	defined Settings // those of the configuration alone
	sources *sourceTable
}

// NewCollector starts a collector. Close ends it. Its error is a
// *webhook.FieldError for each thing that is wrong with the sources and destinations
// of config, or what kept its Sender, Journal, Store or State from being used; the Journal is open
// then, as it was.
func NewCollector(config EngineConfig) (*Collector, error) {
	config = config.withDefaults()
	c := &Collector{
		config:  config,
		journal: config.Journal, store: config.Store, history: config.History,
		dedup: newDedup(config.DedupWindow, config.DedupCalls),
		log:   config.Logger, workers: map[string]*worker{},
		started: time.Now().Truncate(time.Millisecond),
	}
	c.life, c.end = context.WithCancel(context.Background())
	var err error
	if c.sender, err = c.newSender(config.Sender); err != nil {
		return nil, err
	}
	c.usersService = newUsersService(usersConfig{
		Journal: c.journal, State: config.State, Known: c.dedup, Observer: append(Observers{config.History}, config.Observers...), Logger: c.log, Settings: c.Settings,
		AnyWriteKey: config.AnyWriteKey, SeenSources: func() []string { return c.history.sources(math.MaxInt) },
		Instance: config.Instance, TempDir: config.TempDir, BatchCalls: config.BatchCalls,
	})
	c.observer = append(Observers{config.History, c.usersService}, config.Observers...)
	c.ingest = newIngestHandler(ingestConfig{
		journal: c.journal, observer: c.observer, dedup: c.dedup, log: c.log, limits: config.Limits, strict: config.Strict,
		sources:      func() *sourceTable { return c.settings.Load().sources },
		integrations: func(source string) []string { return integrationsOf(source, c.settings.Load().Destinations) },
		isHTTPS:      config.IsHTTPS,
		health:       http.HandlerFunc(c.serveHealth), ready: http.HandlerFunc(c.serveReady),
	})
	if err := c.remember(); err != nil {
		c.sender.Close()
		return nil, err
	}
	if err := c.open(Settings{Sources: config.Sources, Destinations: config.Destinations}); err != nil {
		c.sender.Close()
		return nil, err
	}
	c.usersService.start()
	return c, nil
}

// newSender returns a sender.
func (c *Collector) newSender(config webhook.SenderConfig) (*webhook.Sender, error) {
	sender, err := webhook.NewSender(config)
	if err != nil {
		return nil, fmt.Errorf("mockserver: %w", err)
	}
	return sender, nil
}

// remember lets the calls that are stored already be recognised.
func (c *Collector) remember() error {
	if c.config.Seen == nil {
		return nil
	}
	oldest := time.Now().Add(-c.config.DedupWindow)
	var stored []callHash
	err := c.config.Seen(c.life, c.config.DedupCalls/2, func(source, id string, at time.Time) bool {
		if at.After(oldest) {
			stored = append(stored, hashCall(source, id))
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("mockserver: the calls that are stored cannot be read: %w", err)
	}
	c.dedup.fill(stored)
	return nil
}

// Remember has a call recognised if it is sent here: another collector that shares
// the journal has stored it.
func (c *Collector) Remember(source, messageID string) { c.dedup.add(source, messageID) }

// ClientMetrics returns the counters that browsers' libraries sent of themselves,
// such as analytics_js.invoke, summed over their tags. At most 256 names are kept
// apart; others are counted under "other".
func (c *Collector) ClientMetrics() map[string]float64 { return c.ingest.metrics.clone() }

// undrained returns the calls that this process took and that were not drained before,
// oldest first, and may drain them.
func (c *Collector) undrained(drain bool) []Call {
	return slices.DeleteFunc(c.history.undrained(drain), func(call Call) bool { return call.ReceivedAt.Before(c.started) })
}

// open applies the first settings, and follows those that others make.
func (c *Collector) open(defined Settings) error {
	ctx, cancel := context.WithCancel(context.Background())
	changes, err := c.store.Watch(ctx, settingsKey) // before Load, so that no change falls between
	if err != nil {
		cancel()
		return fmt.Errorf("mockserver: the stored settings cannot be watched: %w", err)
	}
	var following sync.WaitGroup
	c.unfollow = func() { cancel(); following.Wait() }
	stored, err := loadSettings(ctx, c.store)
	if err == nil {
		err = c.apply(ctx, defined, stored)
	}
	if err != nil {
		cancel()
		for _, w := range c.running() {
			w.stop()
		}
		return err
	}
	following.Go(func() { c.follow(ctx, changes) })
	return nil
}

// ServeHTTP serves the tracking API.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.ingest.ServeHTTP(w, r) }

// SourceOf returns the name of the source with a write key.
func (c *Collector) SourceOf(writeKey string) (name string, known bool) {
	return c.settings.Load().sources.sourceOf(writeKey)
}

// Forget makes calls new again: each is taken once more when it is sent again. The
// History keeps what it has of them.
func (c *Collector) Forget(calls []Record) {
	c.history.renew(calls)
	for i := range calls {
		c.dedup.drop(calls[i].Call.Source, calls[i].Call.ID)
	}
}

// ForgetAll makes all calls new again, and the History forgets everything.
func (c *Collector) ForgetAll() {
	c.history.Clear()
	c.dedup.clear()
}

// History returns what the collector remembers.
func (c *Collector) History() *History { return c.history }

// Ledger returns the account of every destination.
func (c *Collector) Ledger(ctx context.Context) ([]Ledger, error) { return c.journal.Ledger(ctx) }

// Verify proves or refutes the account of every destination. Where the journal
// can count anew what it has stored, it does; that may take a while.
func (c *Collector) Verify(ctx context.Context) ([]Verification, error) {
	if v, ok := c.journal.(Verifier); ok {
		return v.Verify(ctx)
	}
	ledgers, err := c.journal.Ledger(ctx)
	var all []Verification
	for _, l := range ledgers {
		all = append(all, Verification{Ledger: l})
	}
	return all, err
}

// apply brings the collector to its settings. The caller holds changing.
func (c *Collector) apply(ctx context.Context, defined Settings, stored storedSettings) error {
	if err := defined.Validate(); err != nil {
		return fmt.Errorf("mockserver: %w", err)
	}
	all := stored.addedTo(defined)
	if err := all.Validate(); err != nil {
		return fmt.Errorf("mockserver: stored settings: %w", err)
	}
	if c.draining.Load() {
		return ErrClosed
	}
	applied := &appliedSettings{Settings: all, defined: defined, sources: newSourceTable(all.Sources, c.config.AnyWriteKey)}
	wanted := map[string]bool{}
	for _, d := range all.Destinations {
		wanted[d.Name] = true
		if err := c.attach(ctx, d); err != nil {
			return fmt.Errorf("mockserver: destination %q: %w", d.Name, err)
		}
	}
	for _, w := range c.running() {
		if !wanted[w.destination().Name] {
			if err := c.detach(ctx, w); err != nil {
				return fmt.Errorf("mockserver: destination %q: %w", w.destination().Name, err)
			}
		}
	}
	c.defined, c.stored = defined, stored
	c.settings.Store(applied)
	return nil
}

// attach starts a destination, or brings it to its new settings.
func (c *Collector) attach(ctx context.Context, d Destination) error {
	w := c.worker(d.Name)
	if w != nil && slices.Equal(w.destination().Sources, d.Sources) {
		w.update(d, nil)
		return nil
	}
	reader, err := c.journal.Attach(ctx, d.Name, d.Sources)
	if err != nil {
		return err
	}
	if w != nil {
		w.update(d, reader)
		return nil
	}
	w = newWorker(d, reader, workerConfig{
		Sender: c.sender, Observer: c.observer, Log: c.log, Jitter: c.config.Jitter, Concurrency: c.config.Concurrency,
		Timeout: cmp.Or(max(c.config.Sender.Timeout, 0), webhook.Timeout),
		Attach:  func(ctx context.Context) (Reader, error) { return c.attachAgain(ctx, d.Name) },
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.workers[d.Name] = w
	if c.draining.Load() {
		w.drain() // Drain came while the journal attached it
	}
	w.start()
	return nil
}

// attachAgain opens the queue of a destination that runs.
func (c *Collector) attachAgain(ctx context.Context, destination string) (Reader, error) {
	if !c.changing.TryLock() {
		return nil, nil // it may be about to be removed, which waits for the caller
	}
	defer c.changing.Unlock()
	return c.journal.Attach(ctx, destination, c.worker(destination).destination().Sources)
}

func (c *Collector) detach(ctx context.Context, w *worker) error {
	name := w.destination().Name
	w.stop()
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
func (c *Collector) worker(destination string) *worker {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.workers[destination]
}

// running returns the workers by the names of their destinations.
func (c *Collector) running() []*worker {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.SortedFunc(maps.Values(c.workers), func(a, b *worker) int { return strings.Compare(a.destination().Name, b.destination().Name) })
}

// Drain makes Ready fail and begins with no more deliveries; those under way
// go on. Calls are still taken: a load balancer needs a moment to see it.
func (c *Collector) Drain() {
	c.draining.Store(true)
	c.usersService.drain()
	for _, w := range c.running() {
		w.drain()
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
		cut = cmp.Or(w.wait(ctx), cut)
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
	c.usersService.stop()
	running := c.running()
	for _, w := range running {
		w.breakOff()
	}
	for _, w := range running {
		w.stop()
	}
	c.endOutcomes()
	c.sender.Close()
	return c.journal.Close()
}
