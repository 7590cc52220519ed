package delivery

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/redact"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/sender"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// journalRetry is the delay after an error of the journal.
const journalRetry = time.Second

// An AliasStore stores pairs of user IDs that alias calls link, as keys. It is as durable as
// the journal. Its methods must be safe for concurrent use.
type AliasStore interface {
	// Load returns the stored pairs.
	Load(ctx context.Context) ([][2]event.Key, error)
	// Save stores a pair. Saving a stored pair again is cheap.
	Save(ctx context.Context, pair [2]event.Key) error
}

// A WorkerConfig contains the dependencies of a Worker.
type WorkerConfig struct {
	// Sender sends requests to webhooks.
	Sender interface {
		Send(ctx context.Context, r sender.Request) webhook.Attempt
	}
	// Observer receives an Attempt for each request and an Ended for each result.
	Observer event.Observer
	// Log receives messages for operators.
	Log *slog.Logger
	// RedactKey is the key of the hashes in redacted calls.
	RedactKey []byte
	// Transforms compiles the transform of the destination. It may be nil.
	Transforms func(program string) (webhook.Transform, error)
	// Quarantine returns the reason why a call must not be delivered to any destination, or
	// "". The reason starts with "plan: ". Quarantine may be nil.
	Quarantine func(c *tracking.Call) (reason string)
	// Superseded returns the reason why a call must not be sent because newer calls contradict
	// it, or "". It is called before each attempt and must be safe for concurrent use. It may be
	// nil.
	Superseded func(ctx context.Context, c *tracking.Call) (reason string)
	// Jitter returns random numbers in [0, 1), see sender.Next. It must be safe for
	// concurrent use.
	Jitter func() float64
	// Concurrency is the maximum number of calls in flight, unless the destination sets it.
	Concurrency int
	// Aliases stores linked user IDs, for ordered delivery.
	Aliases AliasStore
	// OnGone is called when every webhook has responded to a call with 410. It must not block
	// and must be safe for concurrent use. After an Update with GoneSince, calls fail without
	// a request.
	OnGone func(d *tracking.Destination)
	// OnPause is called when a response requires a pause, see sender.RequestedPause. It must not
	// block and must be safe for concurrent use. It may be nil.
	OnPause func(d *tracking.Destination, until time.Time)
	// Attach opens the destination's queue again after the journal has closed it. If it
	// returns nil, the worker calls it again later.
	Attach func(ctx context.Context) (journal.Reader, error)
}

// A workerState is the state of a Worker.
//
//	          | paused by update | resumed by update | drain    | stop
//	----------+------------------+-------------------+----------+--------
//	running   | paused           |                   | draining | stopped
//	paused    |                  | running           | draining | stopped
//	draining  |                  |                   |          | stopped
//	stopped   |                  |                   |          |
type workerState uint8

const (
	workerRunning  workerState = iota // leases entries and begins calls
	workerPaused                      // leases no entries and begins no calls; calls in flight continue
	workerDraining                    // like paused, permanently; run returns when calls in flight have ended
	workerStopped                     // requests in flight are canceled
)

// A Worker delivers the calls of one destination to its webhooks. One goroutine leases entries
// from the journal, one per entry waits for its calls, and the gate starts one per call in
// flight. A destination that hangs fills only its own gate.
type Worker struct {
	WorkerConfig
	name     string
	settings atomic.Pointer[target]
	gate     *gate
	status   statusLog
	requests requests                   // canceled when the worker is stopped
	leasing  scope                      // ends when the worker is drained or stopped
	entries  sync.WaitGroup             // active entries; only run adds entries
	queues   atomic.Pointer[userQueues] // of ordering
	ordering *ordering                  // current ordering, or nil; used only by run
	done     chan struct{}              // closed when run returns
	ending   pause.InFlight             // entries with a result that may be stored but not observed yet

	mu        sync.Mutex // guards the fields below
	state     workerState
	admitting scope          // ends when the worker stops running; replaced when it resumes
	reader    journal.Reader // nil after the journal has closed it, until reopened
	attached  Attachment
	wake      context.CancelFunc // makes next check again
}

// A target contains the settings of a destination, its webhooks, and its compiled redaction and
// transform.
type target struct {
	*tracking.Destination
	endpoints []endpoint
	redaction *redact.Rules
	transform webhook.Transform
}

// An endpoint is a webhook of a target.
type endpoint struct {
	webhook.Endpoint
	batcher *sender.Batcher // nil if each call has its own request
	slots   chan struct{}   // slots of batcher
}

// batchRequests is the default of Destination.Concurrency for batches.
const batchRequests = 4

// isBatched reports whether a request may contain several calls.
func (t *target) isBatched() bool { return t.Batches().Calls > 0 }

// newTarget returns the target of a destination.
func (w *Worker) newTarget(d *tracking.Destination) *target {
	t := &target{
		Destination: d,
		redaction:   d.Redact.Rules(w.RedactKey), transform: settings.Transform(w.Transforms, d.Transform),
	}
	send := func(ctx context.Context, r sender.Request) webhook.Attempt {
		if !w.maySend(t) { // the calls have waited for the batch
			return webhook.Attempt{Verdict: webhook.Temporary, Reason: webhook.ReasonCanceled}
		}
		return w.Sender.Send(ctx, r)
	}
	for _, e := range d.Endpoints() {
		to := endpoint{Endpoint: e}
		if t.isBatched() {
			to.slots = w.slots(e.URL, cmp.Or(d.Concurrency, batchRequests), t.endpoints)
			to.batcher = sender.NewBatcher(&d.Settings, to.slots, send)
		}
		t.endpoints = append(t.endpoints, to)
	}
	return t
}

// slots returns a channel with the capacity n, which limits the batches in progress to a URL. Endpoints with the
// same URL share the channel. A new target takes over the current target's channel, which counts the batches
// in progress.
func (w *Worker) slots(url string, n int, endpoints []endpoint) chan struct{} {
	if t := w.settings.Load(); t != nil {
		endpoints = slices.Concat(t.endpoints, endpoints)
	}
	for _, e := range endpoints {
		if e.URL == url && cap(e.slots) == n {
			return e.slots
		}
	}
	return make(chan struct{}, n)
}

// maySend reports whether a batch may be sent: the destination has the same settings as before, and is
// not paused.
func (w *Worker) maySend(t *target) bool {
	w.mu.Lock()
	running := w.state == workerRunning
	w.mu.Unlock()
	return running && w.settings.Load() == t && !w.gate.isPaused()
}

// maxCalls returns the maximum number of calls in flight to a target.
func (w *Worker) maxCalls(t *target) int {
	if t.isBatched() {
		return t.Batches().Calls * cmp.Or(t.Concurrency, batchRequests)
	}
	return cmp.Or(t.Concurrency, w.Concurrency)
}

// An ordering is the state of ordered delivery.
type ordering struct {
	tracking.Ordering
	reader    journal.Reader
	queues    *userQueues
	owned     context.Context // ends when another process may deliver
	release   func()          // lets other processes deliver
	admitting scope           // ends with owned, when a result is not stored, and when the ordering ends
	failed    atomic.Bool     // a result was not stored
	requests  *requests       // canceled when owned ends
}

// isCurrent reports whether the ordering matches the settings and the reader and is active.
func (o *ordering) isCurrent(to tracking.Ordering, reader journal.Reader) bool {
	return o.Ordering == to && o.reader == reader && o.owned.Err() == nil && o.admitting.Err() == nil
}

// end ends the ordering after its entries have ended.
func (o *ordering) end() {
	o.admitting.end()
	o.requests.parent.end()
	o.requests.concurrent.Wait()
	if o.queues != nil {
		o.queues.stop()
	}
	o.release()
}

// NewWorker returns the worker of a destination with a reader of its queue. Call Start to
// begin.
func NewWorker(d tracking.Destination, reader journal.Reader, config WorkerConfig) *Worker {
	w := &Worker{WorkerConfig: config, name: d.Name, done: make(chan struct{})}
	w.status = statusLog{log: config.Log, destination: d.Name}
	w.gate = newGate(config.Concurrency, w.status.changed)
	w.gate.recovered = w.recovered
	w.requests.parent = newScope(context.Background())
	w.leasing = newScope(w.requests.parent)
	w.admitting = newScope(w.leasing)
	w.Update(d, reader)
	return w
}

// recovered schedules waiting first calls immediately, because the destination works again.
func (w *Worker) recovered() {
	if qs := w.queues.Load(); qs != nil {
		qs.retryNow()
	}
}

// Destination returns the settings of the destination. They must not be modified.
func (w *Worker) Destination() *tracking.Destination { return w.settings.Load().Destination }

// Update replaces the settings, and the reader unless it is nil. The settings apply to calls
// that have not begun.
func (w *Worker) Update(d tracking.Destination, reader journal.Reader) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if d.Paused { // before the new settings admit waiting calls
		w.enter(workerPaused)
	} else {
		w.enter(workerRunning)
	}
	now := w.newTarget(&d)
	old := w.settings.Swap(now)
	w.gate.configure(w.maxCalls(now), d.MaxPerSecond, old != nil && !sameWebhooks(old.Destination, &d))
	if reader != nil {
		w.reader, w.attached = reader, Attachment{reader.Since()}
	}
}

// PauseUntil pauses deliveries until a time, as a response can require.
func (w *Worker) PauseUntil(until time.Time) { w.gate.pauseUntil(until) }

// sameWebhooks reports whether two destinations have the same URLs and the same write key.
func sameWebhooks(a, b *tracking.Destination) bool {
	return a.WriteKey == b.WriteKey && slices.EqualFunc(a.Endpoints(), b.Endpoints(), func(a, b webhook.Endpoint) bool { return a.URL == b.URL })
}

// Drain stops beginning calls. The worker ends when the calls in flight have ended. Drain may
// be called again.
func (w *Worker) Drain() { w.change(workerDraining) }

// Abort drains the worker and cancels the requests in flight. Their calls stay pending. It does
// not block and may be called again.
func (w *Worker) Abort() { w.change(workerStopped) }

// Stop is like Abort, and waits until the worker has ended.
func (w *Worker) Stop() {
	w.Abort()
	<-w.done
	w.requests.concurrent.Wait()
}

// IsStopped reports whether Abort or Stop was called.
func (w *Worker) IsStopped() bool { return w.requests.parent.Err() != nil }

// Wait waits until a drained worker has ended, or returns the error of ctx.
func (w *Worker) Wait(ctx context.Context) error {
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *Worker) change(to workerState) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.enter(to)
}

// enter changes the state if the table of workerState allows it. The lock is held.
func (w *Worker) enter(to workerState) {
	if to < w.state && w.state >= workerDraining {
		return
	}
	w.state = to
	switch to {
	case workerRunning:
		if w.admitting.Err() != nil {
			w.admitting = newScope(w.leasing)
		}
	case workerPaused:
		w.admitting.end()
	case workerDraining:
		w.leasing.end()
	case workerStopped:
		w.requests.parent.end()
	}
	if w.wake != nil {
		w.wake()
	}
}

// WaitForObservers waits until the observer has received all results that the journal has
// stored, or ctx ends. It also waits for results that the journal cannot store yet.
func (w *Worker) WaitForObservers(ctx context.Context) error { return w.ending.Wait(ctx, w.name) }

// An Attachment is the attachment of a destination to the journal.
type Attachment struct {
	Since time.Time // the destination gets no earlier calls
}

// Covers reports whether a result with this time is a result of the destination, and not of a removed
// destination with the same name. It compares the clocks of the store and of a collector.
func (a Attachment) Covers(at time.Time) bool { return !at.Before(a.Since) }

// Attachment returns the current attachment of the destination.
func (w *Worker) Attachment() Attachment {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.attached
}

// CountsSince returns the time since which attempts describe the destination: when it was attached or,
// if later, when it recovered.
func (w *Worker) CountsSince() time.Time {
	attached, recovered := w.Attachment().Since, w.gate.recoveredAt()
	if recovered.After(attached) {
		return recovered
	}
	return attached
}

// A Status is the delivery status of a destination.
type Status struct {
	Paused bool `json:"paused"`
	// Down reports that at least ten requests failed in a row. If they could not connect, one
	// call at a time is attempted. Otherwise the rate of attempts is reduced.
	Down bool `json:"down"`
	// Failures is the number of consecutive failures of first attempts or connections. A failed
	// batch counts once.
	Failures int `json:"failures"`
	// ProbeAt is the time of the next attempt at an unreachable destination.
	ProbeAt time.Time `json:"probeAt,omitzero"`
	// HeldUntil is the end of a pause that a response requires.
	HeldUntil time.Time `json:"heldUntil,omitzero"`
	// GoneSince is when the last of the webhooks responded with 410. Calls fail since then.
	GoneSince time.Time `json:"goneSince,omitzero"`
}

// Status returns the delivery status.
func (w *Worker) Status() (s Status) {
	d := w.Destination()
	s.Paused, s.GoneSince = d.Paused, d.GoneSince
	var is breakerState
	is, s.Failures, s.ProbeAt, s.HeldUntil = w.gate.state()
	s.Down = is != working
	return s
}
