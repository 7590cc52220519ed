package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/delivery"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/ingest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/routing"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/sender"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/shapes"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/stats"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/users"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// The methods below are for the admin API and the inspector.

// Logger returns the logger of the collector.
func (c *Collector) Logger() *slog.Logger { return c.config.Logger }

// Users returns the service for audiences, computed traits and deletion requests.
func (c *Collector) Users() *users.Service { return c.users }

// Shapes returns the observed properties of events.
func (c *Collector) Shapes() *shapes.Shapes { return c.shapes }

// StateStore returns the store for persistent state.
func (c *Collector) StateStore() state.Store { return c.config.State }

// Problems returns statistics of failures by cause.
func (c *Collector) Problems() stats.Report { return c.causes.Report() }

// ObserveRemote processes an event of another collector with the same journal. It updates the
// History and the replays.
func (c *Collector) ObserveRemote(e event.Event) {
	c.config.History.Observe(e)
	c.runs.Observe(e)
}

// AcceptsAnyWriteKey reports whether unknown write keys are accepted.
func (c *Collector) AcceptsAnyWriteKey() bool { return c.config.AnyWriteKey }

// Started returns the start time, truncated to milliseconds like ReceivedAt of calls.
func (c *Collector) Started() time.Time { return c.started }

// Drained returns a channel that is closed when the collector is drained.
func (c *Collector) Drained() <-chan struct{} { return c.ctx.Done() }

// Messages returns the handler of /messages, or nil unless Config.Messages is set.
func (c *Collector) Messages() http.Handler {
	if !c.config.Messages {
		return nil
	}
	return ingest.NewMessagesHandler(c.messages)
}

// Send makes one request to a webhook, without retries.
func (c *Collector) Send(ctx context.Context, r sender.Request) webhook.Attempt {
	return c.sender.Send(ctx, r)
}

// An AttachedDestination is a destination with its attachment.
type AttachedDestination struct {
	tracking.Destination
	delivery.Attachment
}

// Attached returns the current destinations with their attachments.
func (c *Collector) Attached() []AttachedDestination {
	settings := c.Settings()
	attached := make([]AttachedDestination, 0, len(settings.Destinations))
	for _, d := range settings.Destinations {
		if w := c.workers.of(d.Name); w != nil {
			attached = append(attached, AttachedDestination{d, w.Attachment()})
		}
	}
	return attached
}

// UnknownDestination returns a problem and a hint if no destination has this name, and no retained
// call has an outcome at a destination with this name. An empty name is not a problem.
func (c *Collector) UnknownDestination(name string) (problem, hint string) {
	names, h := c.Settings().DestinationNames(), c.History()
	if name == "" || slices.Contains(names, name) || h.HasOutcomeAt(name) {
		return "", ""
	}
	hint = "there are no destinations"
	if len(names) > 0 {
		hint = "the destinations are " + text.CutBytes(1000, strings.Join(names, ", "))
	}
	return "no destination is named " + text.Quote(100, name), hint
}

// Gets reports whether the journal stores the call for the destination.
func (d *AttachedDestination) Gets(c *tracking.Call) bool {
	return !c.ReceivedAt.Before(d.Since.Truncate(time.Millisecond)) && routing.IsConnected(&d.Destination, c.Source)
}

// Routes reports whether the destination delivers the call. If not, it returns the reason.
func (d *AttachedDestination) Routes(c *tracking.Call) (deliver bool, reason string) {
	return routing.Route(&d.Destination, c)
}

// IsPrevious reports whether e is a result of a removed destination with the same name as one of the
// destinations.
func IsPrevious(e *tracking.Ended, destinations []AttachedDestination) bool {
	for i := range destinations {
		if d := &destinations[i]; d.Name == e.Destination {
			return !d.Covers(e.At)
		}
	}
	return false
}

// States yields the latest result of a call at each destination that receives the call or has a result
// for it. It omits results of previous destinations with the same name. A destination without a result
// is pending since the call was received. The second value is false if its result may have expired.
func States(r *tracking.Record, destinations []AttachedDestination) iter.Seq2[tracking.Ended, bool] {
	return func(yield func(tracking.Ended, bool) bool) {
		for i := range destinations {
			d := &destinations[i]
			last, decided := r.Last(d.Name)
			if decided = decided && d.Covers(last.At); !decided {
				last = tracking.Ended{Destination: d.Name, At: r.Call.ReceivedAt}
			}
			if (decided || d.Gets(&r.Call)) && !yield(last, decided || !r.Partial) {
				return
			}
		}
		for i := range r.Ends {
			name := r.Ends[i].Destination
			if slices.ContainsFunc(destinations, func(d AttachedDestination) bool { return d.Name == name }) ||
				slices.ContainsFunc(r.Ends[:i], func(e tracking.Ended) bool { return e.Destination == name }) {
				continue
			}
			if last, _ := r.Last(name); !yield(last, true) {
				return
			}
		}
	}
}

// A DestinationOverview is a destination with its status and ledger.
type DestinationOverview struct {
	tracking.Destination
	ReadOnly bool // defined by the configuration
	Status   DestinationStatus
	Ledger   *tracking.Ledger // nil before the journal creates it
}

// Overviews returns the destinations that pick selects.
func (c *Collector) Overviews(ctx context.Context, pick func(tracking.Destination) bool) ([]DestinationOverview, error) {
	ledgers, err := c.config.Journal.Ledger(ctx)
	if err != nil {
		return nil, err
	}
	configured := c.Configured()
	var all []DestinationOverview
	for _, d := range c.Settings().Destinations {
		if !pick(d) {
			continue
		}
		o := DestinationOverview{
			Destination: d, ReadOnly: configured.Destination(d.Name) != nil, Ledger: journal.LedgerOf(ledgers, d.Name),
			Status: DestinationStatus{Destination: d.Name, State: DestinationDisabled}, // unless it still has a worker
		}
		if w := c.workers.of(d.Name); w != nil {
			o.Status = c.statusOf(w)
		}
		all = append(all, o)
	}
	return all, nil
}

// CheckDestination returns a joined error with a [*webhook.FieldError] for each problem of a
// destination. It does not check URLs, sources and secrets that old already has against the egress
// policy, the known sources and the rules for new secrets. Otherwise other settings could no longer
// be changed after a change of these rules. For a new destination, old is empty.
func (c *Collector) CheckDestination(old, d *tracking.Destination) error {
	errs := []error{d.Validate(), settings.CheckReachable(c.config.Sender.Policy, &d.Settings, old.Endpoints(), nil)}
	for _, secret := range [][2]string{{"sharedSecret", d.SharedSecret}, {"previousSecret", d.PreviousSecret}, {"writeKey", d.WriteKey}} {
		if p := settings.CheckSecret(secret[0], secret[1]); p != nil && !slices.Contains([]string{old.SharedSecret, old.PreviousSecret, old.WriteKey}, secret[1]) {
			errs = append(errs, p)
		}
	}
	errs = append(errs, settings.HashProblem(d.Redact, c.config.RedactKey), settings.TransformProblem(c.config.Transforms, d.Transform))
	known := c.Settings()
	for i, name := range d.Sources {
		if !c.config.AnyWriteKey && !slices.Contains(old.Sources, name) && known.Source(name) == nil {
			errs = append(errs, &webhook.FieldError{Field: fmt.Sprintf("sources[%d]", i), Problem: fmt.Sprintf("is %q, which is not a source", name), Hint: "name one of /api/v1/sources"})
		}
	}
	return errors.Join(errs...)
}

// Redact returns the body of a call with the redaction of a destination.
func (c *Collector) Redact(d *tracking.Destination, body []byte) []byte {
	return d.Redact.Rules(c.config.RedactKey).Apply(nil, body)
}

// Body returns the body of a request of a destination for a stored call; see [sender.Body].
func (c *Collector) Body(d *tracking.Destination, call *tracking.Call) ([]byte, error) {
	return sender.Body(&d.Settings, sender.Content{ID: call.ID, Body: c.Redact(d, call.Body), Transform: c.Transform(d)})
}

// Transform returns the compiled transform of a destination, or nil.
func (c *Collector) Transform(d *tracking.Destination) webhook.Transform {
	return settings.Transform(c.config.Transforms, d.Transform)
}

// A PendingCallsError reports that a destination was not removed because it has pending calls.
type PendingCallsError struct {
	Destination string
	Calls       int64
}

// Error implements error.
func (e *PendingCallsError) Error() string {
	return fmt.Sprintf("mockserver: destination %s has %d pending calls", text.Quote(text.MaxRepeated, e.Destination), e.Calls)
}
