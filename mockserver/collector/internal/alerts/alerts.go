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
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/sender"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

const (
	// DefaultAfter is the default downtime of a destination before an alert.
	DefaultAfter = 5 * time.Minute

	// checkInterval is the interval between checks of the collector.
	checkInterval = 2 * time.Second
	// maxBackoff is the maximum time between attempts at a failing webhook. A longer
	// Retry-After takes precedence.
	maxBackoff = time.Minute

	// An alert is raised when the size of the queue reaches nearLimit times its limit, and
	// recovers below belowLimit times the limit.
	nearLimit  = 0.8
	belowLimit = 0.75
)

// Results of alerts, for metrics.
const (
	resultSent    = "sent"    // the webhook responded with 2xx
	resultFailed  = "failed"  // the alert will be retried
	resultDropped = "dropped" // the webhook did not accept a recovery for an hour
)

// A Config configures the webhook for alerts.
type Config struct {
	Webhook      string            `yaml:"webhook"`
	After        time.Duration     `yaml:"after"`  // downtime of a destination before an alert; defaults to DefaultAfter
	Format       string            `yaml:"format"` // JSON or Slack; defaults to JSON
	SharedSecret string            `yaml:"sharedSecret"`
	Signature    webhook.Signature `yaml:"signature"`
	Headers      map[string]string `yaml:"headers"`
}

// Values of Config.Format.
const (
	JSON  = "json"
	Slack = "slack" // format of Slack's incoming webhooks
)

// Settings returns the settings of the webhook.
func (c *Config) Settings() webhook.Settings {
	return webhook.Settings{
		Webhooks:     []webhook.Endpoint{{URL: c.Webhook, Headers: c.Headers}},
		SharedSecret: c.SharedSecret, Signature: c.Signature,
	}
}

// A Collector provides the status to check. It also sends the alerts, with the same rules as
// deliveries.
type Collector interface {
	Status() []engine.DestinationStatus
	Health(ctx context.Context) (journal.Health, error)
	Send(ctx context.Context, r sender.Request) webhook.Attempt
}

// An Alerter sends alerts about a collector to a webhook. Its methods, except Start and Close,
// are safe for concurrent use.
type Alerter struct {
	log     *slog.Logger
	count   func(kind, result string)
	config  atomic.Pointer[Config] // nil if there is no webhook
	changed chan struct{}          // receives a value when config changes; never closed
	failed  pause.Throttle

	mu      sync.Mutex // guards machine
	machine *machine

	stop context.CancelFunc
	done chan struct{} // closed when the goroutine of Start ends
}

// New returns an Alerter without a webhook. Alerts identify the collector by name. New calls
// count with the kind and the result of each alert.
func New(name string, log *slog.Logger, count func(kind, result string)) *Alerter {
	return &Alerter{log: log, count: count, machine: newMachine(name), changed: make(chan struct{}, 1)}
}

// Configure sets the webhook, or removes it if c is nil. A webhook with a different URL receives
// all current alerts.
func (a *Alerter) Configure(c *Config) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.config.Load()
	switch {
	case c == nil:
		a.machine = newMachine(a.machine.collector)
	case before != nil && before.Webhook != c.Webhook:
		a.machine.resendAll()
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
	f := finding{bad: true, reason: ended.Reason, messageID: ended.CallID}
	if ended.Call != nil { // nil for replayed calls
		f.event = cmp.Or(event.NameOf(ended.Call), ended.Call.Type)
	}
	a.machine.failures[ended.Destination] = f
	if ended.State == tracking.StateFailed {
		a.machine.recordFailure(ended.Destination, f, time.Now())
	}
}

// Start starts checking a collector and sending alerts. The caller must call Close.
func (a *Alerter) Start(c Collector) {
	var ctx context.Context
	ctx, a.stop = context.WithCancel(context.Background())
	a.done = make(chan struct{})
	go func() {
		defer close(a.done)
		a.run(ctx, c)
	}()
}

// Close stops the Alerter and drops unsent alerts.
func (a *Alerter) Close() {
	a.stop()
	<-a.done
}

func (a *Alerter) run(ctx context.Context, c Collector) {
	ticker := time.NewTicker(checkInterval)
	defer ticker.Stop()
	var to *outlet
	for {
		var tick <-chan time.Time // nil without a webhook, so an idle process does not wake up
		config := a.config.Load()
		if config != nil {
			tick = ticker.C
			if to == nil || to.config != config {
				to = &outlet{config: config}
			}
			a.check(ctx, c)
			a.sendPending(ctx, c, to)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick:
		case <-a.changed:
		}
	}
}

// check checks the collector and passes the findings to the machine.
func (a *Alerter) check(ctx context.Context, c Collector) {
	statuses := c.Status()
	health, err := c.Health(ctx)
	if ctx.Err() != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	attached := make(map[string]time.Time, len(statuses))
	for i := range statuses {
		name := statuses[i].Destination
		attached[name] = statuses[i].Since
		a.machine.see(subject{kindDestination, name}, ofDestination(&statuses[i]), now)
	}
	queue := subject{kind: kindQueue}
	a.machine.see(queue, ofQueue(health, a.machine.isBad(queue)), now)
	a.machine.see(subject{kind: kindStorage}, ofStorage(err), now)
	a.machine.see(subject{kind: kindReplicas}, ofReplicas(health), now)
	for _, kind := range a.machine.tick(attached, now) {
		a.count(string(kind), resultDropped)
		a.log.Warn("dropped an alert that its webhook did not accept for an hour", "kind", kind)
	}
}

// ofDestination returns the finding for a destination. The finding can be bad during a delay
// requested by Retry-After, although the destination is not down.
func ofDestination(s *engine.DestinationStatus) finding {
	switch {
	case s.State == engine.DestinationDisabled:
		return finding{reason: "it is disabled"}
	case !s.GoneSince.IsZero():
		return finding{bad: true, since: s.GoneSince, reason: "its webhooks responded with 410 (Gone): calls to it fail until it is resumed"}
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
		return finding{} // a full queue has a separate kind of alert
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

// An outlet tracks the attempts to send alerts to a webhook.
type outlet struct {
	config    *Config
	failures  int       // number of consecutive failures
	notBefore time.Time // earliest time of the next attempt
}

// sendPending sends the pending alerts. It returns when the next check of the collector is due.
func (a *Alerter) sendPending(ctx context.Context, c Collector, to *outlet) {
	for end := time.Now().Add(checkInterval); ; {
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

// next returns the next alert to send, or nil if there is none or the webhook has changed.
func (a *Alerter) next(to *Config, now time.Time) *draft {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.config.Load() != to {
		return nil
	}
	return a.machine.next(now)
}

// send sends an alert that is signed in the same way as a delivery.
func send(ctx context.Context, c Collector, config *Config, d *draft) webhook.Attempt {
	body, err := d.body(config.Format)
	settings := config.Settings()
	r, invalid := sender.NewRequest(&settings, sender.Content{ID: d.id, Body: body, Number: d.tries, At: time.Now()})
	if err = errors.Join(err, invalid); err != nil {
		return webhook.Attempt{Verdict: webhook.Permanent, Error: err.Error()}
	}
	r.Endpoint = settings.Webhooks[0]
	return c.Send(ctx, r)
}

// conclude processes the result of an attempt to send an alert.
func (a *Alerter) conclude(to *outlet, d *draft, attempt *webhook.Attempt) {
	now := time.Now()
	log := a.log.With("kind", d.Kind, "state", d.State, "destination", d.Destination)
	if attempt.Verdict != webhook.Success {
		to.notBefore = now.Add(max(min(checkInterval<<min(to.failures, 10), maxBackoff), sender.RequestedPause(attempt)))
		to.failures++
		a.count(string(d.Kind), resultFailed)
		if ok, suppressed := a.failed.Allow(now, every, 1); ok {
			log.Warn("cannot send an alert; retrying", "error", attempt.Error, "suppressed", suppressed)
		}
		return
	}
	to.failures = 0
	a.count(string(d.Kind), resultSent)
	log.Info("sent an alert")
	a.mu.Lock()
	defer a.mu.Unlock()
	a.machine.received(d, now)
}
