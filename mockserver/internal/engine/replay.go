package engine

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// Bounds of what a replay puts into one entry of the journal.
const (
	replayCalls = 100
	replayBytes = 256 << 10
)

// A Selection picks calls of a destination to be replayed.
type Selection struct {
	// State is where the calls stand. Calls that failed, and those that are quarantined,
	// come from the journal, which keeps them; others that were delivered or filtered
	// come from the History, as far as it goes back. StatePending, the zero value, stands for
	// StateFailed: what is pending comes anyway.
	State tracking.State
	history.CallFilter
	// DryRun only counts.
	DryRun bool
}

// Replay makes the calls of a destination due again that sel picks, with a new
// window of four hours, and returns how many they are. On an error, that many
// were replayed before it; it is ErrUnknown where there is no such destination, or
// what the journal said. One replay runs at a time, others wait.
func (c *Collector) Replay(ctx context.Context, destination string, sel Selection) (int, error) {
	w := c.workers.of(destination)
	if w == nil {
		return 0, fmt.Errorf("%w: there is no destination %q", state.ErrUnknown, destination)
	}
	// Of two replays at a time, both could pick the same call.
	c.replaying.Lock()
	defer c.replaying.Unlock()
	r := &replay{collector: c, destination: destination, from: sel.State, dryRun: sel.DryRun}
	var calls iter.Seq2[tracking.Call, error]
	switch sel.State {
	case tracking.StatePending, tracking.StateFailed:
		r.from, calls = tracking.StateFailed, listed(ctx, destination, c.Failed)
	case tracking.StateFiltered:
		calls = chain(listed(ctx, destination, c.Quarantined), c.recorded(destination, w.AttachedSince(), sel.State))
	default:
		calls = c.recorded(destination, w.AttachedSince(), sel.State)
	}
	for call, err := range calls {
		if err == nil && sel.Matches(&call) {
			err = r.add(ctx, call)
		}
		if err != nil {
			return r.done, err
		}
	}
	return r.done, r.flush(ctx)
}

// A lister yields calls that the journal lists for a destination, see Collector.Failed.
type lister func(ctx context.Context, destination string, yield func(journal.FailedCall) bool) error

// listed yields the calls that the journal lists, or its error.
func listed(ctx context.Context, destination string, list lister) iter.Seq2[tracking.Call, error] {
	return func(yield func(tracking.Call, error) bool) {
		start, stopped := time.Now(), false
		err := list(ctx, destination, func(f journal.FailedCall) bool {
			if f.FailedAt.After(start) {
				return false // replayed just now, and ended so again
			}
			stopped = !yield(f.Call, nil)
			return !stopped
		})
		if err != nil && !stopped {
			yield(tracking.Call{}, err)
		}
	}
}

// chain yields what each of two yields.
func chain(first, second iter.Seq2[tracking.Call, error]) iter.Seq2[tracking.Call, error] {
	return func(yield func(tracking.Call, error) bool) {
		for call, err := range first {
			if !yield(call, err) {
				return
			}
		}
		second(yield)
	}
}

// recorded yields the calls that the History remembers in a state, but for those of an
// earlier destination of the same name, and those that the journal lists.
func (c *Collector) recorded(destination string, since time.Time, in tracking.State) iter.Seq2[tracking.Call, error] {
	return func(yield func(tracking.Call, error) bool) {
		for record := range c.config.History.Backward(0) {
			s, decided := record.Last(destination)
			if decided && s.State == in && !s.At.Before(since) && !isQuarantine(s.Reason) && !yield(record.Call, nil) {
				return
			}
		}
	}
}

// A replay is one run of Collector.Replay.
type replay struct {
	collector   *Collector
	destination string
	from        tracking.State
	dryRun      bool

	calls []tracking.Call // picked, not yet given to the journal
	bytes int
	done  int
}

func (r *replay) add(ctx context.Context, c tracking.Call) error {
	if r.dryRun {
		r.done++
		return nil
	}
	if len(r.calls) == replayCalls || len(r.calls) > 0 && r.bytes+len(c.Body) > replayBytes {
		if err := r.flush(ctx); err != nil {
			return err
		}
	}
	r.calls, r.bytes = append(r.calls, c), r.bytes+len(c.Body)
	return nil
}

func (r *replay) flush(ctx context.Context) error {
	if len(r.calls) == 0 {
		return nil
	}
	// Recorded before it is done: the calls may be delivered before Replay returns,
	// and that is to be the last word on them.
	r.record(tracking.Outcome{State: tracking.StatePending, Reason: "replayed"})
	if err := r.collector.config.Journal.Replay(ctx, r.destination, r.calls, r.from); err != nil {
		r.record(tracking.Outcome{State: r.from, Reason: "it could not be replayed"})
		return fmt.Errorf("mockserver: the journal does not replay: %w", err)
	}
	r.done += len(r.calls)
	r.calls, r.bytes = nil, 0
	return nil
}

func (r *replay) record(o tracking.Outcome) {
	now := time.Now()
	for i := range r.calls {
		c := &r.calls[i]
		e := tracking.Ended{CallID: c.ID, Source: c.Source, Destination: r.destination, At: now, ReceivedAt: c.ReceivedAt, Outcome: o}
		if o.State == tracking.StatePending {
			e.RetryAt = now
		}
		r.collector.observer.Observe(e)
	}
}

// Failed yields the calls that a destination has given up, oldest first, until yield
// returns false.
func (c *Collector) Failed(ctx context.Context, destination string, yield func(journal.FailedCall) bool) error {
	return c.kept(ctx, destination, false, yield)
}

// Quarantined yields the calls that are kept out of a destination until the plan of their
// source is mended, as Failed does.
func (c *Collector) Quarantined(ctx context.Context, destination string, yield func(journal.FailedCall) bool) error {
	return c.kept(ctx, destination, true, yield)
}

func (c *Collector) kept(ctx context.Context, destination string, filtered bool, yield func(journal.FailedCall) bool) error {
	return c.config.Journal.Failed(ctx, destination, func(f journal.FailedCall) bool { return f.Filtered != filtered || yield(f) })
}
