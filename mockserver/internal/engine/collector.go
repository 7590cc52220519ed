package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/causes"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/delivery"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/ingest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/measure"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/sender"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/shapes"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/users"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A Collector takes analytics calls over HTTP, keeps them in its journal, and
// forwards each to the destinations that are to get it. It is an http.Handler
// that serves the tracking API. Its methods may be called from many goroutines
// at once.
type Collector struct {
	config   Config
	observer event.Observer
	dedup    *ingest.Dedup
	ingest   *ingest.Handler
	sender   *sender.Sender
	started  time.Time // as calls that come then are stamped

	users    *users.Service        // audiences, computed traits and deletion requests
	measures *measure.Destinations // how the destinations are doing
	causes   *causes.Causes        // of what goes wrong
	shapes   *shapes.Shapes        // what the calls of senders look like

	settings  appliedSettings
	workers   workers
	gone      marker
	holdWrite holdWriter
	holds     atomic.Pointer[map[string]hold] // as stored; nil before they are read
	replaying chan struct{}                   // holds an element while a Replay runs: one at a time
	runs      replayRuns                      // that go on by themselves
	life      context.Context                 // ends when the collector is drained
	end       context.CancelFunc              // ends life
	unready   atomic.Bool                     // that this was logged
}

// appliedSettings are the settings that apply, and what they are made of.
type appliedSettings struct {
	now      atomic.Pointer[settingsInUse] // as requests look at them
	unfollow func()                        // ends following the store, and waits for it

	// changing lets one change of the settings run at a time, with what it asks
	// of the journal and of the store. It guards what follows.
	changing sync.Mutex
	stored   storedSettings // by the store
	closed   bool
}

// settingsInUse are settings that do not change.
type settingsInUse struct {
	settings.Settings
	defined settings.Settings // those of the configuration alone
	sources *ingest.SourceTable
}

// workers are those of the destinations that are attached. Its methods may be called
// from many goroutines at once.
type workers struct {
	mu     sync.Mutex // guards byName
	byName map[string]*delivery.Worker
}

// of returns that of a destination, or nil.
func (ws *workers) of(destination string) *delivery.Worker {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return ws.byName[destination]
}

// all returns the workers by the names of their destinations.
func (ws *workers) all() []*delivery.Worker {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return slices.SortedFunc(maps.Values(ws.byName), func(a, b *delivery.Worker) int { return strings.Compare(a.Destination().Name, b.Destination().Name) })
}

// ClientMetrics returns the counters that browsers' libraries sent of themselves,
// such as analytics_js.invoke, summed over their tags. At most 256 names are kept
// apart; others are counted under "other".
func (c *Collector) ClientMetrics() map[string]float64 { return c.ingest.Metrics.Clone() }

// undrained returns the calls that this process took and that were not drained before,
// oldest first, and may drain them.
func (c *Collector) undrained(drain bool) []tracking.Call {
	return slices.DeleteFunc(c.config.History.Undrained(drain), func(call tracking.Call) bool { return call.ReceivedAt.Before(c.started) })
}

// ServeHTTP serves the tracking API.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.ingest.ServeHTTP(w, r) }

// SourceOf returns the name of the source with a write key.
func (c *Collector) SourceOf(writeKey string) (name string, known bool) {
	return c.settings.now.Load().sources.SourceOf(writeKey)
}

// Forget makes calls new again: each is taken once more when it is sent again. The
// History keeps what it has of them.
func (c *Collector) Forget(calls []tracking.Record) {
	c.config.History.Renew(calls)
	for i := range calls {
		c.dedup.Drop(calls[i].Call.Source, calls[i].Call.ID)
	}
}

// ForgetAll makes all calls new again, and the History forgets everything.
func (c *Collector) ForgetAll() {
	c.config.History.Clear()
	c.shapes.Clear()
	c.dedup.Clear()
}

// History returns what the collector remembers.
func (c *Collector) History() *history.History { return c.config.History }

// Ledger returns the account of every destination.
func (c *Collector) Ledger(ctx context.Context) ([]tracking.Ledger, error) {
	return c.config.Journal.Ledger(ctx)
}

// Verify proves or refutes the account of every destination. Where the journal
// can count anew what it has stored, it does; that may take a while.
func (c *Collector) Verify(ctx context.Context) ([]journal.Verification, error) {
	return c.config.Journal.Verify(ctx)
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
	if c.life.Err() != nil {
		return state.ErrClosed
	}
	for _, d := range all.Destinations {
		if err := c.attach(ctx, d); err != nil {
			return fmt.Errorf("mockserver: destination %q: %w", d.Name, err)
		}
	}
	for _, w := range c.workers.all() {
		name := w.Destination().Name
		if slices.ContainsFunc(all.Destinations, settings.DestinationNamed(name)) {
			continue
		}
		if err := c.detach(ctx, w); err != nil {
			return fmt.Errorf("mockserver: destination %q: %w", name, err)
		}
	}
	c.settings.stored = stored
	c.settings.now.Store(&settingsInUse{all, defined, ingest.NewSourceTable(all.Sources, c.config.AnyWriteKey)})
	return nil
}

// attach starts a destination, or brings it to its new settings.
func (c *Collector) attach(ctx context.Context, d tracking.Destination) error {
	w := c.workers.of(d.Name)
	if w != nil && slices.Equal(w.Destination().Sources, d.Sources) {
		w.Update(d, nil)
		return nil
	}
	reader, err := c.config.Journal.Attach(ctx, d.Name, d.Sources)
	if err != nil {
		return err
	}
	if w != nil {
		w.Update(d, reader)
		return nil
	}
	w = delivery.NewWorker(d, reader, delivery.WorkerConfig{
		Sender: c.sender, Observer: c.observer, Log: c.config.Logger, Jitter: c.config.Jitter, Concurrency: c.config.Concurrency,
		Quarantine: c.quarantine(),
		Superseded: c.users.Superseded,
		Gone:       c.gone.mark,
		Held:       c.holdWrite.put,
		Joined:     joinedAt(c.config.State, d.Name),
		Attach:     func(ctx context.Context) (journal.Reader, error) { return c.attachAgain(ctx, d.Name) },
	})
	c.workers.mu.Lock()
	defer c.workers.mu.Unlock()
	if until := c.heldUntil(&d); !until.IsZero() {
		w.Hold(until)
	}
	c.workers.byName[d.Name] = w
	if c.life.Err() != nil {
		w.Drain() // Drain came while the journal attached it
	}
	w.Start()
	return nil
}

// quarantined begins the reason of calls that a plan keeps out of destinations.
const quarantined = "plan: "

func isQuarantine(reason string) bool { return strings.HasPrefix(reason, quarantined) }

// quarantine returns what tells destinations which calls are kept out, or nil.
func (c *Collector) quarantine() func(*tracking.Call) string {
	if c.config.Plans == nil {
		return nil
	}
	return func(call *tracking.Call) string {
		if reason := c.config.Plans.Quarantine(call); reason != "" {
			return quarantined + reason
		}
		return ""
	}
}

// attachAgain opens the queue of a destination that runs.
func (c *Collector) attachAgain(ctx context.Context, destination string) (journal.Reader, error) {
	if !c.settings.changing.TryLock() {
		return nil, nil // it may be about to be removed, which waits for the caller
	}
	defer c.settings.changing.Unlock()
	return c.config.Journal.Attach(ctx, destination, c.workers.of(destination).Destination().Sources)
}

// detach ends a worker, and forgets its destination.
func (c *Collector) detach(ctx context.Context, w *delivery.Worker) error {
	name := w.Destination().Name
	w.Stop()
	c.workers.mu.Lock()
	delete(c.workers.byName, name)
	c.workers.mu.Unlock()
	c.measures.Delete(name)
	c.causes.Delete(name)
	c.runs.forget(name)
	l, err := c.ledgerOf(ctx, name)
	if err = errors.Join(err, c.config.Journal.Detach(ctx, name), joinedAt(c.config.State, name).forget(ctx)); err != nil {
		return err
	}
	c.config.Logger.Warn("a destination was removed, and is forgotten with its calls", "destination", name, "pending", l.Pending, "failed", l.Failed)
	return nil
}

// ledgerOf returns the account of a destination; the zero value where the journal has
// none.
func (c *Collector) ledgerOf(ctx context.Context, destination string) (l tracking.Ledger, err error) {
	ledgers, err := c.Ledger(ctx)
	if i := slices.IndexFunc(ledgers, func(l tracking.Ledger) bool { return l.Destination == destination }); i >= 0 {
		l = ledgers[i]
	}
	return l, err
}

// Drain makes Ready fail and begins with no more deliveries; those under way
// go on. Calls are still taken: a load balancer needs a moment to see it.
func (c *Collector) Drain() {
	c.end()
	c.users.Drain()
	for _, w := range c.workers.all() {
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
	for _, w := range c.workers.all() {
		cut = cmp.Or(w.Wait(ctx), cut)
	}
	return errors.Join(cut, c.Close())
}

// Close ends the collector: it stops forwarding, breaks off the requests under
// way, whose calls stay pending, and closes the journal. It may be called again.
// The HTTP server that serves the collector should have been shut down before.
func (c *Collector) Close() error {
	c.Drain()
	c.settings.unfollow()
	defer c.gone.wait() // without the lock that is held below
	defer c.holdWrite.wait()
	return c.close()
}

func (c *Collector) close() error {
	c.settings.changing.Lock()
	defer c.settings.changing.Unlock()
	if c.settings.closed {
		return nil
	}
	c.settings.closed = true
	c.users.Stop()
	c.runs.close()
	running := c.workers.all()
	for _, w := range running {
		w.BreakOff()
	}
	for _, w := range running {
		w.Stop()
	}
	c.users.EndOutcomes()
	var written sync.WaitGroup
	for _, stop := range []func(){c.shapes.Stop, c.measures.Stop, c.causes.Stop} {
		written.Go(stop)
	}
	written.Wait()
	c.sender.Close()
	return c.config.Journal.Close()
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
	// Gone are the destinations whose webhooks answered 410, by name; also such that the
	// configuration defines.
	Gone map[string]goneMark `json:"gone,omitempty"`
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
		if mark, ok := s.Gone[d.Name]; ok && mark.isOf(d) {
			d.GoneSince = mark.At
		}
	}
	return all
}
