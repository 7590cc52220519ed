package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
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
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/sender"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/shapes"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/stats"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/users"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A Collector receives analytics calls over HTTP, stores them in its journal and delivers them
// to destinations. It is an http.Handler for the tracking API. Its methods are safe for
// concurrent use.
type Collector struct {
	config   Config
	observer event.Observer
	dedup    *ingest.Dedup
	ingest   *ingest.Handler
	sender   *sender.Sender
	started  time.Time // truncated to milliseconds, like ReceivedAt of calls

	users            *users.Service      // audiences, computed traits and deletion requests
	destinationStats *stats.Destinations // statistics of attempts
	causes           *stats.Causes       // failures by cause
	shapes           *shapes.Shapes      // observed properties of events

	settings     appliedSettings
	workers      workers
	gone         backgroundWriter[goneMark]
	newPauses    backgroundWriter[requestedPause]
	storedPauses atomic.Pointer[map[string]requestedPause] // nil before they are loaded
	replaying    chan struct{}                             // semaphore: one Replay runs at a time
	runs         replayRuns                                // background replays
	ctx          context.Context                           // canceled when the collector is drained
	cancel       context.CancelFunc                        // cancels ctx
	unready      atomic.Bool                               // the last message logged by logReady was "not ready"
}

// appliedSettings contains the current settings and their origins.
type appliedSettings struct {
	now      atomic.Pointer[settingsInUse] // current version, for requests
	unfollow func()                        // stops watching the store, and waits for the watcher

	// changing serializes changes of the settings, including their use of the journal and
	// the store. It guards the fields below.
	changing pause.Lock
	stored   storedSettings // settings in the store
	closed   bool
}

// settingsInUse is an immutable version of the settings.
type settingsInUse struct {
	settings.Settings
	defined settings.Settings // settings of the configuration
	sources *ingest.SourceTable
}

// workers contains the workers of attached destinations. Its methods are safe for concurrent
// use.
type workers struct {
	mu     sync.Mutex // guards byName
	byName map[string]*delivery.Worker
}

// of returns the worker of a destination, or nil.
func (ws *workers) of(destination string) *delivery.Worker {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return ws.byName[destination]
}

// all returns the workers, sorted by destination.
func (ws *workers) all() []*delivery.Worker {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return slices.SortedFunc(maps.Values(ws.byName), func(a, b *delivery.Worker) int { return strings.Compare(a.Destination().Name, b.Destination().Name) })
}

// messages returns the calls that this process has received and that were not taken yet, oldest
// first. If take is set, it takes them.
func (c *Collector) messages(take bool) []tracking.Call {
	return slices.DeleteFunc(c.config.History.Undrained(take), func(call tracking.Call) bool { return call.ReceivedAt.Before(c.started) })
}

// ServeHTTP serves the tracking API.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.ingest.ServeHTTP(w, r) }

// SourceOf returns the name of the source with a write key.
func (c *Collector) SourceOf(writeKey string) (name string, known bool) {
	return c.settings.now.Load().sources.SourceOf(writeKey)
}

// Forget removes calls from duplicate detection, so that each is accepted once more. The History
// still retains the calls.
func (c *Collector) Forget(calls []tracking.Record) {
	c.config.History.Renew(calls)
	for i := range calls {
		c.dedup.Drop(calls[i].Call.Source, calls[i].Call.ID)
	}
}

// ForgetAll clears duplicate detection, the History and the shapes.
func (c *Collector) ForgetAll() {
	c.config.History.Clear()
	c.shapes.Clear()
	c.dedup.Clear()
}

// History returns the retained calls.
func (c *Collector) History() *history.History { return c.config.History }

// Ledger returns the ledger of every destination.
func (c *Collector) Ledger(ctx context.Context) ([]tracking.Ledger, error) {
	return c.config.Journal.Ledger(ctx)
}

// Verify verifies the ledger of every destination. It may take long, because a journal may
// recount the stored calls.
func (c *Collector) Verify(ctx context.Context) ([]journal.Verification, error) {
	return c.config.Journal.Verify(ctx)
}

// apply switches to new settings. If replan is set, the plans may have changed, and waiting calls are
// checked again. The caller must hold the lock changing.
func (c *Collector) apply(ctx context.Context, defined settings.Settings, stored storedSettings, replan bool) error {
	if err := defined.Validate(); err != nil {
		return fmt.Errorf("mockserver: %w", err)
	}
	all := stored.addedTo(defined)
	if err := all.Validate(); err != nil {
		return fmt.Errorf("mockserver: stored settings: %w", err)
	}
	if problems := all.HashProblems(c.config.RedactKey); len(problems) > 0 {
		return fmt.Errorf("mockserver: %w", errors.Join(problems...))
	}
	if problems := defined.TransformProblems(c.config.Transforms); len(problems) > 0 {
		return fmt.Errorf("mockserver: %w", errors.Join(problems...))
	}
	for _, problem := range all.TransformProblems(c.config.Transforms) { // another version has stored the program
		c.config.Logger.Error("calls to a destination are retried until its transform is fixed", "error", problem)
	}
	if c.ctx.Err() != nil {
		return state.ErrClosed
	}
	for _, d := range all.Destinations {
		if err := c.attach(ctx, d); err != nil {
			return fmt.Errorf("mockserver: destination %q: %w", d.Name, err)
		}
	}
	for _, d := range all.Destinations { // after all destinations are attached
		if w := c.workers.of(d.Name); replan || !reflect.DeepEqual(*w.Destination(), d) { // Update cancels waiting batches
			w.Update(d, nil)
		}
	}
	var failed error
	for _, w := range c.workers.all() {
		name := w.Destination().Name
		if all.Destination(name) != nil {
			continue
		}
		if err := c.detach(ctx, w); err != nil {
			failed = errors.Join(failed, fmt.Errorf("mockserver: destination %q: %w: %w", name, ErrNotRemoved, err))
		}
	}
	c.settings.now.Store(&settingsInUse{all, defined, ingest.NewSourceTable(all.Sources, c.config.AnyWriteKey, c.config.RedactKey)})
	if failed == nil { // otherwise catchUp repeats the removal
		c.settings.stored = stored
	}
	return failed
}

// attach starts a new destination, or updates a destination whose sources have changed.
func (c *Collector) attach(ctx context.Context, d tracking.Destination) error {
	w := c.workers.of(d.Name)
	if w != nil && w.IsStopped() { // its removal has failed
		w = nil
	}
	if w != nil && slices.Equal(w.Destination().Sources, d.Sources) {
		return nil
	}
	reader, err := c.reader(ctx, d.Name, d.Sources)
	if err != nil {
		return err
	}
	if w != nil {
		same := *w.Destination()
		same.Sources = d.Sources
		w.Update(same, reader)
		return nil
	}
	w = delivery.NewWorker(d, reader, delivery.WorkerConfig{
		Sender: c.sender, Observer: c.observer, Log: c.config.Logger, Jitter: c.config.Jitter, Concurrency: c.config.Concurrency,
		RedactKey:  c.config.RedactKey,
		Transforms: c.config.Transforms,
		Quarantine: c.quarantine(),
		Superseded: c.users.Superseded,
		OnGone:     c.onGone,
		OnPause:    c.onPause,
		Aliases:    newAliasStore(c.config.State, d.Name),
		Attach:     func(ctx context.Context) (journal.Reader, error) { return c.attachAgain(ctx, d.Name) },
	})
	c.workers.mu.Lock()
	defer c.workers.mu.Unlock()
	if until := c.pausedUntil(&d); !until.IsZero() {
		w.PauseUntil(until)
	}
	c.workers.byName[d.Name] = w
	if c.ctx.Err() != nil {
		w.Drain() // Drain was called during the attachment
	}
	w.Start()
	return nil
}

// reader attaches a destination to the journal. It resets the destination's statistics if another collector
// removed the destination and added it again.
func (c *Collector) reader(ctx context.Context, destination string, sources []string) (journal.Reader, error) {
	reader, err := c.config.Journal.Attach(ctx, destination, sources)
	if w := c.workers.of(destination); err == nil && w != nil && !reader.Since().Equal(w.Attachment().Since) {
		c.forget(destination)
	}
	return reader, err
}

// forget removes the statistics of a removed destination, and ends its replays.
func (c *Collector) forget(destination string) {
	c.destinationStats.Delete(destination)
	c.causes.Delete(destination)
	c.runs.forget(destination)
}

// quarantined is the prefix of the reasons for quarantine.
const quarantined = "plan: "

func isQuarantine(reason string) bool { return strings.HasPrefix(reason, quarantined) }

// quarantine returns the function for delivery.WorkerConfig.Quarantine, or nil.
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

// attachAgain attaches a running destination again after the journal has closed its queue.
func (c *Collector) attachAgain(ctx context.Context, destination string) (journal.Reader, error) {
	if !c.settings.changing.TryLock() {
		return nil, nil // the lock's owner may be removing the destination and waiting for this worker
	}
	defer c.settings.changing.Unlock()
	return c.reader(ctx, destination, c.workers.of(destination).Destination().Sources)
}

// detach stops a worker and deletes its destination. If it fails, the stopped worker stays in workers, and the
// next change calls detach again.
func (c *Collector) detach(ctx context.Context, w *delivery.Worker) error {
	name := w.Destination().Name
	w.Stop()
	c.forget(name)
	l, err := c.ledgerOf(ctx, name)
	if err = errors.Join(err, c.config.Journal.Detach(ctx, name), newAliasStore(c.config.State, name).forget(ctx)); err != nil {
		return err
	}
	c.workers.mu.Lock()
	delete(c.workers.byName, name)
	c.workers.mu.Unlock()
	c.config.Logger.Warn("destination removed with its calls", "destination", name, "pending", l.Pending, "failed", l.Failed)
	return nil
}

// isBeingRemoved reports whether the removal of a worker's destination has begun, or has failed.
func (c *Collector) isBeingRemoved(w *delivery.Worker) bool {
	return w.IsStopped() && c.ctx.Err() == nil // Close also stops workers
}

// ledgerOf returns the ledger of a destination, or a zero ledger for an unknown destination.
func (c *Collector) ledgerOf(ctx context.Context, destination string) (l tracking.Ledger, err error) {
	ledgers, err := c.Ledger(ctx)
	if found := journal.LedgerOf(ledgers, destination); found != nil {
		l = *found
	}
	return l, err
}

// Drain makes Ready fail and stops new deliveries. Deliveries in flight continue. Calls are still
// accepted, because load balancers need time to notice that Ready fails.
func (c *Collector) Drain() {
	c.cancel()
	c.users.Drain()
	for _, w := range c.workers.all() {
		w.Drain()
	}
}

// Shutdown drains the collector, waits for deliveries in flight until ctx is canceled, and closes
// the collector. Unfinished calls stay pending in the journal. Shut down the HTTP server first. If
// deliveries were canceled, Shutdown returns the error of ctx.
func (c *Collector) Shutdown(ctx context.Context) error {
	c.Drain()
	var cut error
	for _, w := range c.workers.all() {
		cut = cmp.Or(w.Wait(ctx), cut)
	}
	return errors.Join(cut, c.Close())
}

// Close stops deliveries, cancels requests in flight, and closes the journal. Unfinished calls stay
// pending. Shut down the HTTP server first. Close may be called again.
func (c *Collector) Close() error {
	c.Drain()
	c.settings.unfollow()
	defer c.gone.writing.Wait() // after close has released the lock
	defer c.newPauses.writing.Wait()
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
		w.Abort()
	}
	for _, w := range running {
		w.Stop()
	}
	c.users.EndOutcomes()
	var written sync.WaitGroup
	for _, stop := range []func(){c.shapes.Stop, c.destinationStats.Stop, c.causes.Stop} {
		written.Go(stop)
	}
	written.Wait()
	c.sender.Close()
	return c.config.Journal.Close()
}
