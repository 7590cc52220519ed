package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/causes"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/delivery"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/tracecontext"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// Bounds of what a replay puts into one entry of the journal.
const (
	replayCalls = 100
	replayBytes = 256 << 10
)

// Reasons of the outcomes that a replay records.
const (
	reasonReplayed    = "replayed"
	reasonNotReplayed = "it could not be replayed"
)

// A Selection picks calls of a destination to be replayed.
type Selection struct {
	// State is where the calls stand. Calls that failed, and those that are quarantined,
	// come from the journal, which keeps them; others that were delivered or filtered
	// come from the History, as far as it goes back. StatePending, the zero value, stands for
	// StateFailed: what is pending comes anyway.
	State tracking.State
	history.CallFilter
	// Cause is why the calls failed, see [causes.Of]; empty for any. FailedSince and
	// FailedUntil, exclusive, are when; zero for any time. They pick from what the journal
	// lists: with other states than StateFailed and StateFiltered they pick none.
	Cause       string
	FailedSince time.Time
	FailedUntil time.Time
	// EndedBefore excludes calls that reached State then or later; zero excludes none. A repeated
	// request with the same EndedBefore does not replay a call twice.
	EndedBefore time.Time
	// DryRun only counts.
	DryRun bool
}

// byFailure reports whether calls are picked by why or when they failed.
func (s *Selection) byFailure() bool {
	return s.Cause != "" || !s.FailedSince.IsZero() || !s.FailedUntil.IsZero()
}

// matchesFailure reports whether the selection picks a failure.
func (s *Selection) matchesFailure(f *journal.FailedCall) bool {
	return (s.FailedSince.IsZero() || !f.FailedAt.Before(s.FailedSince)) &&
		(s.FailedUntil.IsZero() || f.FailedAt.Before(s.FailedUntil)) &&
		(s.EndedBefore.IsZero() || f.FailedAt.Before(s.EndedBefore)) &&
		(s.Cause == "" || causes.Of(f.Reason) == s.Cause)
}

// Replay makes the calls of a destination due again that sel picks, with a new
// window of four hours, and returns how many they are. On an error, that many
// were replayed before it; it is ErrUnknown where there is no such destination, or
// what the journal said. One replay runs at a time, others wait.
func (c *Collector) Replay(ctx context.Context, destination string, sel Selection) (int, error) {
	return c.replay(ctx, destination, sel, nil)
}

// replayPause is the minimum time between two replays of one call to one destination.
const replayPause = 10 * time.Second

// ReplayCall replays one call to a destination, in any state except pending, and returns
// the number of replayed calls. It refuses a second replay within 10 seconds, so that a
// repeated request or key press delivers the call once. Its errors are state.ErrNotReplayable,
// state.ErrReplayedRecently, state.ErrUnknown, or an error of the journal.
func (c *Collector) ReplayCall(ctx context.Context, destination, source, id string, dryRun bool) (int, error) {
	unlock, err := c.lockReplays(ctx)
	if err != nil {
		return 0, err
	}
	defer unlock()
	sel := Selection{DryRun: dryRun, CallFilter: history.CallFilter{IDs: []string{id}, Sources: []string{source}}}
	if record, ok := c.config.History.Find(source, id); ok {
		if wait := replayPause - time.Since(lastReplay(&record, destination)); wait > 0 && !dryRun {
			return 0, fmt.Errorf("%w: call %q, destination %q; retry in %d s",
				state.ErrReplayedRecently, id, destination, int(math.Ceil(wait.Seconds())))
		}
		outcome, decided := record.State(destination)
		switch {
		case decided && outcome.State != tracking.StatePending:
			sel.State = outcome.State
		case decided || !record.Partial:
			return 0, fmt.Errorf("%w: call %q, destination %q", state.ErrNotReplayable, id, destination)
		}
	}
	return c.replayLocked(ctx, destination, sel, nil)
}

// lastReplay returns the time of the call's last successful replay to a destination, or
// the zero time.
func lastReplay(r *tracking.Record, destination string) time.Time {
	failed := false // the replay that the loop reaches next
	for _, e := range slices.Backward(r.Ends) {
		switch {
		case e.Destination != destination:
		case e.Reason == reasonNotReplayed:
			failed = true
		case e.State == tracking.StatePending && e.Reason == reasonReplayed:
			if !failed {
				return e.At
			}
			failed = false
		}
	}
	return time.Time{}
}

// lockReplays waits until no other replay runs: two replays at the same time could pick
// the same call.
func (c *Collector) lockReplays(ctx context.Context) (unlock func(), err error) {
	select {
	case c.replaying <- struct{}{}:
		return func() { <-c.replaying }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// replay is Replay with the run that follows its calls, or nil.
func (c *Collector) replay(ctx context.Context, destination string, sel Selection, run *replayRun) (int, error) {
	unlock, err := c.lockReplays(ctx)
	if err != nil {
		return 0, err
	}
	defer unlock()
	return c.replayLocked(ctx, destination, sel, run)
}

// replayLocked is replay for a caller that holds the lock of lockReplays.
func (c *Collector) replayLocked(ctx context.Context, destination string, sel Selection, run *replayRun) (int, error) {
	w := c.workers.of(destination)
	if w == nil {
		return 0, fmt.Errorf("%w: there is no destination %q", state.ErrUnknown, destination)
	}
	r := &replay{collector: c, worker: w, destination: destination, from: sel.State, dryRun: sel.DryRun, run: run}
	var calls iter.Seq2[tracedCall, error]
	switch sel.State {
	case tracking.StatePending, tracking.StateFailed:
		r.from, calls = tracking.StateFailed, listed(ctx, destination, &sel, c.Failed)
	case tracking.StateFiltered:
		calls = chain(listed(ctx, destination, &sel, c.Quarantined), r.recorded(ctx, &sel))
	default:
		calls = r.recorded(ctx, &sel)
	}
	for call, err := range calls {
		if err == nil && sel.Matches(&call.Call) {
			err = r.add(ctx, call)
		}
		if err != nil {
			return r.done, err
		}
	}
	return r.done, r.flush(ctx)
}

// StartReplay replays as Replay does, without waiting for it, and returns the ID of the
// run, which ends at the latest when the collector is drained. expected is how many calls
// it is to replay, as a dry run has counted. Its error is ErrUnknown, ErrReplaying or
// ErrClosed.
func (c *Collector) StartReplay(destination string, sel Selection, expected int) (id string, err error) {
	if c.workers.of(destination) == nil {
		return "", fmt.Errorf("%w: there is no destination %q", state.ErrUnknown, destination)
	}
	sel.DryRun = false
	run, err := c.runs.begin(destination, sel.Cause, expected)
	if err != nil {
		return "", err
	}
	go func() {
		defer c.runs.going.Done()
		_, err := c.replay(c.life, destination, sel, run)
		if err != nil && c.life.Err() != nil {
			err = errStopping
		}
		c.runs.end(run, err)
	}()
	return run.ID, nil
}

// errStopping is why a replay ends before its calls are due again.
var errStopping = errors.New("the collector was stopping: the calls that are not due again can be replayed once more")

// ReplayRuns returns the newest replays that StartReplay began, the newest first.
func (c *Collector) ReplayRuns() []ReplayRun { return c.runs.newestFirst() }

// ReplayRun returns one of them. Its error is ErrUnknown.
func (c *Collector) ReplayRun(id string) (ReplayRun, error) {
	for _, r := range c.runs.newestFirst() {
		if r.ID == id {
			return r, nil
		}
	}
	return ReplayRun{}, fmt.Errorf("%w: there is no replay %q; the newest are remembered, until the collector ends", state.ErrUnknown, id)
}

// A tracedCall is a call with the trace of the request that brought it, or nil.
type tracedCall struct {
	tracking.Call
	trace *tracecontext.Context
}

// A lister yields calls that the journal lists for a destination, see Collector.Failed.
type lister func(ctx context.Context, destination string, yield func(journal.FailedCall) bool) error

// listed yields the calls that the journal lists and the selection picks, or the journal's
// error.
func listed(ctx context.Context, destination string, sel *Selection, list lister) iter.Seq2[tracedCall, error] {
	return func(yield func(tracedCall, error) bool) {
		stopped := false
		err := list(ctx, destination, func(f journal.FailedCall) bool {
			if !sel.matchesFailure(&f) {
				return true
			}
			stopped = !yield(tracedCall{f.Call, f.Trace}, nil)
			return !stopped
		})
		if err != nil && !stopped {
			yield(tracedCall{}, err)
		}
	}
}

// chain yields what each of two yields.
func chain(first, second iter.Seq2[tracedCall, error]) iter.Seq2[tracedCall, error] {
	return func(yield func(tracedCall, error) bool) {
		for call, err := range first {
			if !yield(call, err) {
				return
			}
		}
		second(yield)
	}
}

// traceOf returns the trace of a call that is remembered, or nil.
func traceOf(r *tracking.Record) *tracecontext.Context {
	if r.TraceParent == "" {
		return nil
	}
	return &tracecontext.Context{Parent: r.TraceParent, State: r.TraceState}
}

// A replay is one run of Collector.Replay.
type replay struct {
	collector   *Collector
	worker      *delivery.Worker
	destination string
	from        tracking.State
	dryRun      bool
	run         *replayRun // that follows the calls; nil where nobody does

	calls  []tracking.Call // picked, not yet given to the journal
	traces tracecontext.List
	bytes  int
	done   int
}

// recorded yields the calls that the History remembers in a state, but for those of an
// earlier destination of the same name, and those that the journal lists.
func (r *replay) recorded(ctx context.Context, sel *Selection) iter.Seq2[tracedCall, error] {
	return func(yield func(tracedCall, error) bool) {
		if sel.byFailure() {
			return
		}
		r.awaitTold(ctx)
		since := r.worker.AttachedSince()
		for record := range r.collector.config.History.Backward(0) {
			s, decided := record.Last(r.destination)
			switch {
			case !decided, s.State != sel.State, s.At.Before(since), isQuarantine(s.Reason):
			case !sel.EndedBefore.IsZero() && !s.At.Before(sel.EndedBefore):
			case !yield(tracedCall{record.Call, traceOf(&record)}, nil):
				return
			}
		}
	}
}

// tellPatience is how long a replay waits for what has ended to be told, or read: a journal
// that cannot store how calls ended does not count them as ended either.
const tellPatience = 10 * time.Second

// awaitTold waits until the History and the run know of all calls that count as ended.
func (r *replay) awaitTold(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, tellPatience)
	defer stop()
	_ = r.worker.AwaitTold(ctx) // what is not told is not known to have ended
	select {
	case <-r.collector.config.Restored:
	case <-ctx.Done():
	}
}

func (r *replay) add(ctx context.Context, c tracedCall) error {
	if r.dryRun {
		r.done++
		return nil
	}
	if len(r.calls) == replayCalls || len(r.calls) > 0 && r.bytes+len(c.Body) > replayBytes {
		if err := r.flush(ctx); err != nil {
			return err
		}
	}
	r.traces = r.traces.With(len(r.calls), c.trace)
	r.calls, r.bytes = append(r.calls, c.Call), r.bytes+len(c.Body)
	return nil
}

func (r *replay) flush(ctx context.Context) error {
	if len(r.calls) == 0 {
		return nil
	}
	if r.done == 0 { // calls are listed before it is told that they have ended
		r.awaitTold(ctx)
	}
	if !r.collector.runs.begins(r.run, r.calls) {
		return fmt.Errorf("%w: the destination was removed", state.ErrUnknown)
	}
	// Recorded before it is done: the calls may be delivered before Replay returns,
	// and that is to be the last word on them.
	r.record(r.calls, tracking.Outcome{State: tracking.StatePending, Reason: reasonReplayed})
	if err := r.collector.config.Journal.Replay(ctx, r.destination, r.calls, r.traces, r.from); err != nil {
		left := r.calls
		if partial := (*journal.PartialReplayError)(nil); errors.As(err, &partial) {
			left = r.calls[partial.Replayed:]
		}
		r.record(left, tracking.Outcome{State: r.from, Reason: reasonNotReplayed})
		r.collector.runs.fails(r.run, left)
		r.done += len(r.calls) - len(left)
		return fmt.Errorf("mockserver: the journal does not replay: %w", err)
	}
	r.done += len(r.calls)
	r.calls, r.traces, r.bytes = nil, nil, 0
	return nil
}

func (r *replay) record(calls []tracking.Call, o tracking.Outcome) {
	now := time.Now()
	for i := range calls {
		c := &calls[i]
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
