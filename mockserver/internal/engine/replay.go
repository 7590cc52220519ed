package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/delivery"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/stats"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// Maximum size of an entry of a replay.
const (
	replayCalls = 100
	replayBytes = 256 << 10
)

// Reasons of the outcomes that a replay records. If the replay fails, calls keep their state, and
// reasonNotReplayed is appended to their reasons.
const (
	reasonReplayed    = "replayed"
	reasonNotReplayed = "it could not be replayed"
)

// A Selection selects calls of a destination for a replay. The API decodes it from JSON, except for the
// fields that it does not have, or decodes itself.
type Selection struct {
	// State is the state of the calls. Failed and quarantined calls are read from the journal.
	// Delivered and other filtered calls are read from the History, if they are retained. The
	// zero value, StatePending, means StateFailed.
	State tracking.State `json:"-"`
	history.CallFilter
	// Cause selects calls by the cause of the failure; see [stats.CauseOf]. FailedSince (inclusive)
	// and FailedUntil (exclusive) select calls by the time of the failure. Empty values match
	// all calls. If any is set, only failed and quarantined calls are selected.
	Cause       string    `json:"cause"`
	FailedSince time.Time `json:"failedSince"`
	FailedUntil time.Time `json:"failedUntil"`
	// EndedBefore selects only calls that reached State before this time. The zero time selects
	// all calls. A repeated request with the same EndedBefore does not replay a call twice.
	EndedBefore time.Time `json:"-"`
	// DryRun counts the calls without replaying them.
	DryRun bool `json:"dryRun"`
	// Found, if not nil, receives the messageIds of the selected calls.
	Found map[string]bool `json:"-"`
}

// Missing returns the IDs that are not in Found. It returns nil if Found is nil.
func (s *Selection) Missing() []string {
	if s.Found == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.IDs), func(id string) bool { return s.Found[id] })
}

// byFailure reports whether the selection has a cause or a time of failure.
func (s *Selection) byFailure() bool {
	return s.Cause != "" || !s.FailedSince.IsZero() || !s.FailedUntil.IsZero()
}

// matchesFailure reports whether a failed call matches the cause and the times.
func (s *Selection) matchesFailure(f *journal.FailedCall) bool {
	return (s.FailedSince.IsZero() || !f.FailedAt.Before(s.FailedSince)) &&
		(s.FailedUntil.IsZero() || f.FailedAt.Before(s.FailedUntil)) &&
		(s.EndedBefore.IsZero() || f.FailedAt.Before(s.EndedBefore)) &&
		(s.Cause == "" || stats.CauseOf(f.Reason) == s.Cause)
}

// Replay makes the selected calls of a destination pending again, with a new window of four hours,
// and returns their number. If it fails, it returns the number of calls that were replayed before
// the error. The error is ErrUnknown for an unknown destination, or an error of the journal. One
// replay runs at a time; others wait.
func (c *Collector) Replay(ctx context.Context, destination string, sel Selection) (int, error) {
	return c.replay(ctx, destination, sel, nil)
}

// replayPause is the minimum time between two replays of one call to one destination.
const replayPause = 10 * time.Second

// ReplayCall replays one call to a destination and returns the number of replayed calls. The call
// may have any state except pending. A second replay within 10 seconds is refused, so that a
// repeated request or key press delivers the call once. The errors are state.ErrNotReplayable,
// state.ErrReplayedRecently, state.ErrUnknown, and errors of the journal.
func (c *Collector) ReplayCall(ctx context.Context, destination, source, id string, dryRun bool) (int, error) {
	unlock, err := c.lockReplays(ctx)
	if err != nil {
		return 0, err
	}
	defer unlock()
	sel := Selection{DryRun: dryRun, CallFilter: history.CallFilter{IDs: []string{id}, Sources: []string{source}}}
	w := c.workers.of(destination)
	if record, ok := c.config.History.Find(source, id); ok && w != nil {
		if wait := replayPause - time.Since(lastReplay(&record, destination, w.Attachment())); wait > 0 && !dryRun {
			return 0, fmt.Errorf("%w: call %s, destination %s; retry in %d s",
				state.ErrReplayedRecently, text.Quote(text.MaxRepeated/2, id), text.Quote(text.MaxRepeated/2, destination), int(math.Ceil(wait.Seconds())))
		}
		outcome, decided := record.State(destination)
		switch {
		case decided && outcome.State != tracking.StatePending:
			sel.State = outcome.State
		case decided || !record.Partial:
			return 0, fmt.Errorf("%w: call %s, destination %s", state.ErrNotReplayable, text.Quote(text.MaxRepeated/2, id), text.Quote(text.MaxRepeated/2, destination))
		}
	}
	return c.replayLocked(ctx, destination, sel, nil)
}

// lastReplay returns the time of the call's last successful replay to a destination, without replays
// to earlier destinations with the same name. If there is none, it returns the zero time.
func lastReplay(r *tracking.Record, destination string, attached delivery.Attachment) time.Time {
	failed := false // the next older replay failed
	for _, e := range slices.Backward(r.Ends) {
		switch {
		case e.Destination != destination || !attached.Covers(e.At):
		case strings.HasSuffix(e.Reason, reasonNotReplayed):
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

// lockReplays waits until no other replay runs. Otherwise two replays might select the same call.
func (c *Collector) lockReplays(ctx context.Context) (unlock func(), err error) {
	select {
	case c.replaying <- struct{}{}:
		return func() { <-c.replaying }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// replay implements Replay. run tracks the calls; it may be nil.
func (c *Collector) replay(ctx context.Context, destination string, sel Selection, run *replayRun) (int, error) {
	unlock, err := c.lockReplays(ctx)
	if err != nil {
		return 0, err
	}
	defer unlock()
	return c.replayLocked(ctx, destination, sel, run)
}

// replayLocked is like replay. The caller must have called lockReplays.
func (c *Collector) replayLocked(ctx context.Context, destination string, sel Selection, run *replayRun) (int, error) {
	w := c.workers.of(destination)
	if w == nil || c.isBeingRemoved(w) {
		return 0, state.Unknown("destination", destination)
	}
	r := &replay{collector: c, worker: w, destination: destination, from: sel.State, dryRun: sel.DryRun, run: run}
	var sequences []iter.Seq2[selectedCall, error]
	switch sel.State {
	case tracking.StatePending, tracking.StateFailed:
		r.from, sequences = tracking.StateFailed, append(sequences, c.listed(ctx, destination, &sel, false))
	case tracking.StateFiltered:
		sequences = append(sequences, c.listed(ctx, destination, &sel, true), r.recorded(ctx, &sel))
	default:
		sequences = append(sequences, r.recorded(ctx, &sel))
	}
	for _, calls := range sequences {
		for call, err := range calls {
			if err == nil && sel.Matches(&call.Call) {
				if sel.Found != nil {
					sel.Found[call.ID] = true
				}
				err = r.add(ctx, call)
			}
			if err != nil {
				return r.done, err
			}
		}
	}
	return r.done, r.flush(ctx)
}

// StartReplay starts a Replay in the background and returns its ID. Draining the collector stops the
// replay. expected is the number of calls counted by a dry run. The error is ErrUnknown,
// ErrReplaying or ErrClosed.
func (c *Collector) StartReplay(destination string, sel Selection, expected int) (id string, err error) {
	if w := c.workers.of(destination); w == nil || c.isBeingRemoved(w) {
		return "", state.Unknown("destination", destination)
	}
	sel.DryRun = false
	run, err := c.runs.begin(destination, &sel, expected)
	if err != nil {
		return "", err
	}
	go func() {
		defer c.runs.going.Done()
		_, err := c.replay(c.ctx, destination, sel, run)
		if err != nil && c.ctx.Err() != nil {
			err = errStopping
		}
		c.runs.end(run, err)
	}()
	return run.ID, nil
}

// errStopping is the error of a replay that was interrupted by Drain.
var errStopping = errors.New("the collector stopped: replay the remaining calls again")

// ReplayRuns returns the newest background replays, newest first.
func (c *Collector) ReplayRuns() []ReplayRun { return c.runs.newestFirst() }

// ReplayRun returns the background replay with an ID, or ErrUnknown.
func (c *Collector) ReplayRun(id string) (ReplayRun, error) {
	for _, r := range c.runs.newestFirst() {
		if r.ID == id {
			return r, nil
		}
	}
	return ReplayRun{}, fmt.Errorf("%w; only the newest replays are kept, and only until the collector stops", state.Unknown("replay", id))
}

// A selectedCall is a call to replay.
type selectedCall struct {
	tracking.Call
	trace  *event.Trace // trace context of its request, or nil
	reason string       // reason of its state, or empty
}

// listed yields the failed or quarantined calls in the journal that match the selection.
func (c *Collector) listed(ctx context.Context, destination string, sel *Selection, quarantined bool) iter.Seq2[selectedCall, error] {
	return func(yield func(selectedCall, error) bool) {
		stopped := false
		err := c.Failed(ctx, destination, quarantined, func(f journal.FailedCall) bool {
			if !sel.matchesFailure(&f) {
				return true
			}
			stopped = !yield(selectedCall{f.Call, f.Trace, f.Reason}, nil)
			return !stopped
		})
		if err != nil && !stopped {
			yield(selectedCall{}, err)
		}
	}
}

// traceOf returns the trace context of a retained call, or nil.
func traceOf(r *tracking.Record) *event.Trace {
	if r.TraceParent == "" {
		return nil
	}
	return &event.Trace{Parent: r.TraceParent, State: r.TraceState}
}

// A replay is one execution of Replay.
type replay struct {
	collector   *Collector
	worker      *delivery.Worker
	destination string
	from        tracking.State
	dryRun      bool
	run         *replayRun // tracks the calls; may be nil

	calls   []tracking.Call // selected calls that are not yet passed to the journal
	reasons []string        // their reasons
	traces  event.Traces
	bytes   int
	done    int
}

// recorded yields the calls in the History that have the selected state. It skips calls of an
// earlier destination with the same name, and calls that the journal lists.
func (r *replay) recorded(ctx context.Context, sel *Selection) iter.Seq2[selectedCall, error] {
	return func(yield func(selectedCall, error) bool) {
		if sel.byFailure() {
			return
		}
		r.waitForObservers(ctx)
		attachment := r.worker.Attachment()
		for record := range r.collector.config.History.Backward(0) {
			s, decided := record.Last(r.destination)
			switch {
			case !decided, s.State != sel.State, !attachment.Covers(s.At), isQuarantine(s.Reason):
			case !sel.EndedBefore.IsZero() && !s.At.Before(sel.EndedBefore):
			case !yield(selectedCall{record.Call, traceOf(&record), s.Reason}, nil):
				return
			}
		}
	}
}

// observerTimeout is how long a replay waits for observers. The wait could otherwise last as long
// as the journal cannot store a result.
const observerTimeout = 10 * time.Second

// waitForObservers waits until the History and the run have received all final results.
func (r *replay) waitForObservers(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, observerTimeout)
	defer stop()
	_ = r.worker.WaitForObservers(ctx) // calls with results that are still unobserved are not replayed
	r.collector.AwaitRestored(ctx)
}

// AwaitRestored waits until the History contains the results of earlier processes, for up to
// 10 seconds.
func (c *Collector) AwaitRestored(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, observerTimeout)
	defer stop()
	if c.config.Restored != nil {
		pause.Until(ctx, time.Time{}, c.config.Restored)
	}
}

func (r *replay) add(ctx context.Context, c selectedCall) error {
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
	r.calls, r.reasons, r.bytes = append(r.calls, c.Call), append(r.reasons, c.reason), r.bytes+len(c.Body)
	return nil
}

func (r *replay) flush(ctx context.Context) error {
	if len(r.calls) == 0 {
		return nil
	}
	if r.done == 0 { // the journal lists a failed call before observers are notified of the failure
		r.waitForObservers(ctx)
	}
	if !r.collector.runs.track(r.run, r.calls) {
		return fmt.Errorf("%w: the destination was removed", state.ErrUnknown)
	}
	// Record the replay first: a call may be delivered before the journal's Replay returns, and
	// the record of its result must come after "replayed".
	r.record(0, func(int) tracking.Outcome {
		return tracking.Outcome{State: tracking.StatePending, Reason: reasonReplayed}
	})
	if err := r.collector.config.Journal.Replay(ctx, r.destination, r.calls, r.traces, r.from); err != nil {
		replayed := 0
		if partial := (*journal.PartialReplayError)(nil); errors.As(err, &partial) {
			replayed = partial.Replayed
		}
		r.record(replayed, func(i int) tracking.Outcome {
			return tracking.Outcome{State: r.from, Reason: notReplayed(r.reasons[i])}
		})
		r.collector.runs.untrack(r.run, r.calls[replayed:])
		r.done += replayed
		return fmt.Errorf("mockserver: could not replay calls: %w", err)
	}
	r.done += len(r.calls)
	r.calls, r.reasons, r.traces, r.bytes = nil, nil, nil, 0
	return nil
}

// notReplayed returns the reason of a call that could not be replayed.
func notReplayed(reason string) string {
	switch {
	case reason == "":
		return reasonNotReplayed
	case strings.HasSuffix(reason, reasonNotReplayed):
		return reason
	}
	return reason + "; " + reasonNotReplayed
}

// record notifies the observers of an outcome of each call, beginning with the call at index first.
func (r *replay) record(first int, outcome func(i int) tracking.Outcome) {
	now := time.Now()
	for i := first; i < len(r.calls); i++ {
		c := &r.calls[i]
		e := tracking.Ended{CallID: c.ID, Source: c.Source, Destination: r.destination, At: now, ReceivedAt: c.ReceivedAt, Outcome: outcome(i)}
		if e.State == tracking.StatePending {
			e.RetryAt = now
		}
		r.collector.observer.Observe(e)
	}
}

// Failed yields the failed calls of a destination or, if quarantined is set, the quarantined calls. It
// yields the oldest first, until yield returns false.
func (c *Collector) Failed(ctx context.Context, destination string, quarantined bool, yield func(journal.FailedCall) bool) error {
	return c.config.Journal.Failed(ctx, destination, func(f journal.FailedCall) bool { return f.Filtered != quarantined || yield(f) })
}
