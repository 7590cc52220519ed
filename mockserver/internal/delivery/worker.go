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
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/sender"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// journalRetry is how long a worker waits after the journal failed it.
const journalRetry = time.Second

// Joined remembers pairs of ids that alias calls have joined, by keys of them, as durably
// as the journal keeps calls. Its methods may be called from many goroutines at once.
type Joined interface {
	// Load returns the pairs.
	Load(ctx context.Context) ([][2]event.Key, error)
	// Save adds a pair. That it is there already is no error, and costs little.
	Save(ctx context.Context, pair [2]event.Key) error
}

// A WorkerConfig is what the worker of a destination needs of others.
type WorkerConfig struct {
	// Sender sends the requests to webhooks.
	Sender interface {
		Send(ctx context.Context, r sender.Request) webhook.Attempt
	}
	// Observer is told of each request, as an Attempt, and of how each attempt at a call
	// ended, as Ended.
	Observer event.Observer
	// Log gets a line for what an operator should know.
	Log *slog.Logger
	// Quarantine returns why a call is kept out of every destination for now, as in
	// plan: …; empty where it is not. Nil keeps none out.
	Quarantine func(c *tracking.Call) (reason string)
	// Superseded returns why a call must not be sent any more, as newer ones have said
	// otherwise; empty where it may. It is asked right before each attempt, from many
	// goroutines at once. Nil supersedes none.
	Superseded func(ctx context.Context, c *tracking.Call) (reason string)
	// Jitter returns random numbers from 0 up to 1, see sender.Next. It is called from
	// many goroutines at once.
	Jitter func() float64
	// Concurrency is how many calls may be under way at once, where the destination does
	// not say.
	Concurrency int
	// Joined remembers which ids alias calls have joined, where calls have an order.
	Joined Joined
	// Gone is called when every webhook of the destination has answered a call with 410,
	// from many goroutines at once. It must not wait. Calls fail without a request once an
	// Update says that the destination is gone.
	Gone func(d *tracking.Destination)
	// Held is called when a receiver has requested a pause by Retry-After, from many
	// goroutines at once. It must not wait. Nil is called for none.
	Held func(d *tracking.Destination, until time.Time)
	// Attach opens the queue of the destination again, after the journal has closed it.
	// It returns nil where it should be asked again later.
	Attach func(ctx context.Context) (journal.Reader, error)
}

// A workerState says what a worker does.
//
//	          | paused by update | resumed by update | drain    | stop
//	----------+------------------+-------------------+----------+--------
//	running   | paused           |                   | draining | stopped
//	paused    |                  | running           | draining | stopped
//	draining  |                  |                   |          | stopped
//	stopped   |                  |                   |          |
type workerState uint8

const (
	workerRunning  workerState = iota // it leases entries, and calls begin
	workerPaused                      // it leases none, and no call begins; those under way go on
	workerDraining                    // so too, for good; its goroutine ends when they have ended
	workerStopped                     // requests under way are broken off
)

// A Worker delivers the calls of one destination to its webhooks. One goroutine leases
// entries from the journal; each entry has one that waits for its end, and its calls
// are sent by as many more as the gate admits at once. A destination that hangs fills
// its own gate and nobody else's.
type Worker struct {
	WorkerConfig
	name     string
	settings atomic.Pointer[tracking.Destination]
	gate     *gate
	status   statusLog
	requests requests              // end when the worker is stopped
	leasing  scope                 // ends when the worker is drained or stopped
	entries  sync.WaitGroup        // that are worked at; run alone adds some
	lines    atomic.Pointer[lines] // of ordering
	ordering *ordering             // by which run leases entries, and run alone uses it; nil where calls have no order
	done     chan struct{}         // closed when run has ended
	ending   pause.Underway        // entries that have ended, perhaps, and of which the observer is not told yet

	mu        sync.Mutex // guards what follows
	state     workerState
	admitting scope              // calls may begin until it ends: then the worker is not running; another begins when it is resumed
	reader    journal.Reader     // nil once the journal has closed it, until there is another
	attached  time.Time          // when the destination was attached
	wake      context.CancelFunc // makes next look again
}

// An ordering is in force while the calls of a worker are delivered in an order.
type ordering struct {
	tracking.Ordering
	reader    journal.Reader
	lines     *lines
	held      context.Context // ends when another process may deliver
	release   func()          // lets others deliver
	admitting scope           // calls may begin until it ends: with held, or when the ordering is to end
	requests  *requests       // end with held
}

// stands reports whether an ordering is what the settings and the reader ask for, and in force.
func (o *ordering) stands(to tracking.Ordering, reader journal.Reader) bool {
	return o.Ordering == to && o.reader == reader && o.held.Err() == nil && o.admitting.Err() == nil
}

// end ends the ordering, whose entries have ended, and lets others deliver.
func (o *ordering) end() {
	o.admitting.end()
	o.requests.parent.end()
	o.requests.concurrent.Wait()
	if o.lines != nil {
		o.lines.stop()
	}
	o.release()
}

// NewWorker returns the worker of a destination, which reads from a queue of the
// journal. Start starts it.
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

// recovered says that the destination works again: what has failed meanwhile does not wait
// any longer for its next attempt, nor do the calls behind it in their lines.
func (w *Worker) recovered() {
	if ls := w.lines.Load(); ls != nil {
		ls.hasten()
	}
}

// Destination returns the settings of the destination. They must not be changed.
func (w *Worker) Destination() *tracking.Destination { return w.settings.Load() }

// Update brings the worker to other settings, and to another reader if there is one.
// Calls that have not begun are delivered by them.
func (w *Worker) Update(d tracking.Destination, reader journal.Reader) {
	w.mu.Lock()
	defer w.mu.Unlock()
	old := w.settings.Swap(&d)
	w.gate.configure(cmp.Or(d.Concurrency, w.Concurrency), d.MaxPerSecond, old != nil && !sameWebhooks(old, &d))
	if reader != nil {
		w.reader, w.attached = reader, reader.Since()
	}
	if d.Paused {
		w.enter(workerPaused)
	} else {
		w.enter(workerRunning)
	}
}

// Hold begins no call before a time, as if the receiver had requested it by Retry-After.
func (w *Worker) Hold(until time.Time) { w.gate.hold(until) }

// sameWebhooks reports whether two destinations send to the same URLs.
func sameWebhooks(a, b *tracking.Destination) bool {
	return slices.EqualFunc(a.Webhooks, b.Webhooks, func(a, b webhook.Endpoint) bool { return a.URL == b.URL })
}

// Drain begins with no more calls; run ends once those under way have ended. It may be
// called again.
func (w *Worker) Drain() { w.change(workerDraining) }

// BreakOff drains the worker and breaks off the requests under way, whose calls stay
// pending. It waits for nothing, and may be called again.
func (w *Worker) BreakOff() { w.change(workerStopped) }

// Stop ends the worker as BreakOff does, and waits until it has ended.
func (w *Worker) Stop() {
	w.BreakOff()
	<-w.done
	w.requests.concurrent.Wait()
}

// Wait waits until a worker that is drained has ended, or ctx ends: it returns its error.
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

// enter changes the state, if the table of workerState allows it, and makes next look
// again. The lock is held.
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

// AwaitTold waits until the observer knows of all calls that the journal counts as ended
// here, or ctx ends. Where the journal cannot store how they ended, it waits for that.
func (w *Worker) AwaitTold(ctx context.Context) error { return w.ending.Await(ctx, w.name) }

// AttachedSince returns when the destination was attached.
func (w *Worker) AttachedSince() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.attached
}

// A Status says how the deliveries to a destination go.
type Status struct {
	Paused bool `json:"paused"`
	// Down says that ten calls or more failed in a row. Where they could not connect,
	// one at a time is tried; else they are tried at a lower rate.
	Down bool `json:"down"`
	// Failures is how many calls failed in a row, of those that were tried for the first
	// time or could not connect.
	Failures int `json:"failures"`
	// ProbeAt is when the next call is tried while there is no connection to be had.
	ProbeAt time.Time `json:"probeAt,omitzero"`
	// HeldUntil is when calls begin again after the receiver asked to be left alone.
	HeldUntil time.Time `json:"heldUntil,omitzero"`
	// GoneSince is when all of its webhooks had answered 410: its calls fail.
	GoneSince time.Time `json:"goneSince,omitzero"`
}

// Status returns how the deliveries go.
func (w *Worker) Status() (s Status) {
	d := w.Destination()
	s.Paused, s.GoneSince = d.Paused, d.GoneSince
	var is breakerState
	is, s.Failures, s.ProbeAt, s.HeldUntil = w.gate.state()
	s.Down = is != working
	return s
}
