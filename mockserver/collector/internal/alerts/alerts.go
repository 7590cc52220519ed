package alerts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/logthrottle"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/sender"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

const (
	// DefaultAfter is how long a destination must be down before that is told.
	DefaultAfter = 5 * time.Minute

	// lookEvery is how often the collector is looked at.
	lookEvery = 2 * time.Second
	// maxBackoff is how long a webhook that fails is left alone at most, unless it asks
	// for more by Retry-After.
	maxBackoff = time.Minute

	// nearLimit is the share of its limit from which on the queue is near it, and
	// belowLimit that below which it no longer is.
	nearLimit  = 0.8
	belowLimit = 0.75
)

// Results of alerts, for metrics.
const (
	resultSent    = "sent"    // the webhook answered 2xx
	resultFailed  = "failed"  // it did not; it is tried again
	resultDropped = "dropped" // it was tried for an hour to tell that something is over
)

// A Config says whom to tell.
type Config struct {
	webhook.Settings               // with one webhook
	After            time.Duration // Defaults to DefaultAfter
	Slack            bool          // write what Slack's incoming webhooks take
}

// A Collector is what is looked at, and what sends alerts as it sends calls.
type Collector interface {
	Status() []engine.DestinationStatus
	Health(ctx context.Context) (journal.Health, error)
	Send(ctx context.Context, r sender.Request) webhook.Attempt
}

// An Alerter tells a webhook when something is wrong with a collector. Its methods may be
// called from many goroutines at once, but for Start and Close.
type Alerter struct {
	log     *slog.Logger
	count   func(kind, result string)
	config  atomic.Pointer[Config] // nil if there is no webhook
	changed chan struct{}          // gets a value when config has changed; never closed
	failed  logthrottle.Throttle

	mu      sync.Mutex // guards machine
	machine *machine

	stop context.CancelFunc
	done chan struct{} // closed when the goroutine of Start has ended
}

// New returns an Alerter that tells nobody yet. Its alerts are of a collector of this
// name; count is told of the kind and the result of each.
func New(name string, log *slog.Logger, count func(kind, result string)) *Alerter {
	return &Alerter{log: log, count: count, machine: newMachine(name), changed: make(chan struct{}, 1)}
}

// Configure says whom to tell from now on; nobody with nil. A webhook with another URL is
// told all that is wrong.
func (a *Alerter) Configure(c *Config) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.config.Load()
	switch {
	case c == nil:
		a.machine = newMachine(a.machine.collector)
	case before != nil && before.Webhooks[0].URL != c.Webhooks[0].URL:
		a.machine.retell()
	}
	if c != nil {
		a.machine.after = cmp.Or(c.After, DefaultAfter)
	}
	a.config.Store(c)
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// Observe implements event.Observer.
func (a *Alerter) Observe(e event.Event) {
	if a.config.Load() == nil {
		return
	}
	ended, ok := e.(tracking.Ended)
	if !ok || ended.Reason == "" || ended.State != tracking.StateFailed && ended.State != tracking.StatePending {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.machine.failed(ended.Destination, ended.Reason)
	if ended.State == tracking.StateFailed {
		a.machine.gaveUp(ended.Destination, ended.Reason, time.Now())
	}
}

// Start begins to look at a collector and to send alerts. Close must follow.
func (a *Alerter) Start(c Collector) {
	var ctx context.Context
	ctx, a.stop = context.WithCancel(context.Background())
	a.done = make(chan struct{})
	go func() {
		defer close(a.done)
		a.run(ctx, c)
	}()
}

// Close breaks off what is under way. What was not yet told is not told any more.
func (a *Alerter) Close() {
	a.stop()
	<-a.done
}

func (a *Alerter) run(ctx context.Context, c Collector) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	var to *outlet
	for {
		var tick <-chan time.Time // nil without receivers of alerts: the process can sleep
		config := a.config.Load()
		if config != nil {
			tick = ticker.C
			if to == nil || to.config != config {
				to = &outlet{config: config}
			}
			a.look(ctx, c)
			a.tell(ctx, c, to)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick:
		case <-a.changed:
		}
	}
}

// look takes in how the collector is.
func (a *Alerter) look(ctx context.Context, c Collector) {
	statuses := c.Status()
	health, err := c.Health(ctx)
	if ctx.Err() != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	names := make(map[string]bool, len(statuses))
	for i := range statuses {
		name := statuses[i].Destination
		names[name] = true
		a.machine.see(subject{kindDestination, name}, ofDestination(&statuses[i]), now)
	}
	queue := subject{kind: kindQueue}
	a.machine.see(queue, ofQueue(health, a.machine.isBad(queue)), now)
	a.machine.see(subject{kind: kindStorage}, ofStorage(err), now)
	a.machine.see(subject{kind: kindReplicas}, ofReplicas(health), now)
	for _, kind := range a.machine.tick(names, now) {
		a.count(string(kind), resultDropped)
		a.log.Warn("an alert was dropped: for an hour its webhook could not be told that something is over", "kind", kind)
	}
}

// ofDestination judges a destination as its state does, but that one whose receiver asked
// to be left alone can be down all the same.
func ofDestination(s *engine.DestinationStatus) finding {
	switch {
	case s.State == engine.DestinationDisabled:
		return finding{reason: "it is disabled"}
	case !s.GoneSince.IsZero():
		return finding{bad: true, since: s.GoneSince, reason: "its webhooks answered 410 (Gone): calls to it fail until it is resumed"}
	case s.Paused:
		return finding{reason: "it is paused"}
	}
	return finding{bad: s.Down || s.RecentAttempts > 0 && 2*s.RecentFailures >= s.RecentAttempts}
}

func ofQueue(h journal.Health, wasNear bool) finding {
	share := nearLimit
	if wasNear {
		share = belowLimit
	}
	return finding{bad: h.LimitBytes > 0 && float64(h.Bytes) >= share*float64(h.LimitBytes), bytes: h.Bytes, limit: h.LimitBytes}
}

func ofStorage(err error) finding {
	if err == nil || errors.Is(err, journal.ErrFull) || errors.Is(err, journal.ErrClosed) {
		return finding{} // a full queue is another kind
	}
	return finding{bad: true, reason: err.Error()}
}

func ofReplicas(h journal.Health) finding {
	if len(h.Replicas) == 0 {
		return finding{}
	}
	reason := h.Replicas[0].String()
	if more := len(h.Replicas) - 1; more > 0 {
		reason += fmt.Sprintf(", and %d more", more)
	}
	return finding{bad: true, reason: reason}
}

// An outlet is the webhook that is told.
type outlet struct {
	config    *Config
	failures  int       // in a row
	notBefore time.Time // when the next alert may be sent
}

// tell sends what is due, until the collector is to be looked at again.
func (a *Alerter) tell(ctx context.Context, c Collector, to *outlet) {
	for end := time.Now().Add(lookEvery); ; {
		now := time.Now()
		if !now.Before(end) || now.Before(to.notBefore) {
			return
		}
		d := a.next(to.config, now)
		if d == nil {
			return
		}
		attempt := send(ctx, c, to.config, d)
		if ctx.Err() != nil {
			return
		}
		a.conclude(to, d, &attempt)
	}
}

// next returns the alert that is to be sent now; nil where none is, or to another webhook.
func (a *Alerter) next(to *Config, now time.Time) *draft {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.config.Load() != to {
		return nil
	}
	return a.machine.next(now)
}

// send sends an alert as a delivery sends a call.
func send(ctx context.Context, c Collector, config *Config, d *draft) webhook.Attempt {
	write := d.json
	if config.Slack {
		write = d.slack
	}
	body, err := write()
	r := sender.Request{Endpoint: config.Webhooks[0], Body: body, MessageID: d.id, Number: d.tries}
	if err = errors.Join(err, r.Sign(&config.Settings)); err != nil {
		return webhook.Attempt{Verdict: webhook.Permanent, Error: err.Error()}
	}
	return c.Send(ctx, r)
}

// conclude takes in what came of an alert.
func (a *Alerter) conclude(to *outlet, d *draft, attempt *webhook.Attempt) {
	now := time.Now()
	log := a.log.With("kind", d.Kind, "state", d.State, "destination", d.Destination)
	if attempt.Verdict != webhook.Success {
		to.notBefore = now.Add(max(min(lookEvery<<min(to.failures, 10), maxBackoff), sender.Hold(attempt)))
		to.failures++
		a.count(string(d.Kind), resultFailed)
		if ok, suppressed := a.failed.Allow(now, every, 1); ok {
			log.Warn("an alert could not be sent; it is tried again", "error", attempt.Error, "others since the last line", suppressed)
		}
		return
	}
	to.failures = 0
	a.count(string(d.Kind), resultSent)
	log.Info("an alert was sent")
	a.mu.Lock()
	defer a.mu.Unlock()
	a.machine.received(d, now)
}
