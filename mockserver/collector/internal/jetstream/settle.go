package jetstream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/queue"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// Settle applies a stored outcome: it schedules the next attempt and stores the failed calls. It
// is idempotent.
//
// failed contains the calls that failed permanently, and traces contains their traces.
func (j *Journal) Settle(o *record.Outcome, failed []tracking.Call, traces event.Traces) error {
	ctx := j.Ctx
	if len(o.Again) > 0 && !record.IsParked(o.Due.UnixNano()) {
		if err := j.schedule(ctx, o.Destination, nextAttempt(o)); err != nil {
			return fmt.Errorf("scheduling a retry: %w", err)
		}
	}
	if len(failed) > 0 && j.isCurrent(o) {
		if err := j.storeFailed(ctx, o, failed, traces); err != nil {
			return fmt.Errorf("storing failed calls: %w", err)
		}
	}
	return nil
}

// isCurrent reports whether the attachment of the destination is the same as in the outcome.
func (j *Journal) isCurrent(o *record.Outcome) bool {
	same := false
	return j.ledger.With(o.Destination, func(a *ledger.Account) { same = a.Attached == o.Attached }) && same
}

// SettleFor applies the outcomes of the given messages of CALLS. It reads the outcomes stored after since and
// shortly before. Another process may have been killed just after it had stored these outcomes.
func (j *Journal) SettleFor(ctx context.Context, destination string, since time.Time, messages []uint64) error {
	came := map[uint64]bool{}
	for _, seq := range messages {
		came[seq] = true
	}
	err := j.settleOutcomes(ctx, unsettledBefore(since), func(o *record.Outcome) bool {
		return o.Destination == destination && came[o.Ref.Seq]
	})
	if err != nil {
		return err
	}
	for _, r := range j.ledger.Retries([]string{destination}, func(r ledger.Retry) bool {
		return came[r.Ref.Seq] && !record.IsParked(r.Due)
	}) {
		if _, err := j.restoreIfMissing(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// SettleSince applies the outcomes that other processes stored since shortly before a time, and
// restores all missing retries.
func (j *Journal) SettleSince(ctx context.Context, destination string, since time.Time) error {
	err := j.settleOutcomes(ctx, unsettledBefore(since), func(o *record.Outcome) bool { return o.Destination == destination })
	if err != nil {
		return err
	}
	return j.restoreRetries(ctx, destination)
}

// settleLatest applies the outcomes of a destination that were stored within store.PublishTimeout before the
// newest outcome. Another process may not have applied them yet.
func (j *Journal) settleLatest(ctx context.Context, destination string) error {
	outcomes, err := j.Measure(ctx, record.StreamOutcomes)
	if err != nil {
		return err
	}
	since := outcomes.LastTime.Add(-store.PublishTimeout)
	return j.settleOutcomes(ctx, since, func(o *record.Outcome) bool { return o.Destination == destination })
}

// unsettledBefore returns the start of the search for outcomes that may not be applied at time t. Earlier
// outcomes have been applied by their process, or by a process that has received their messages again.
func unsettledBefore(t time.Time) time.Time { return t.Add(-settleWithinShared) }

// settleWithin is the longest time between storing an outcome and applying it. If the process is killed
// in between, another process that wants calls of the destination receives the message again, and applies the
// outcome at most settleWithinShared after it was stored.
const (
	settleWithin       = time.Minute
	settleWithinShared = 3*queue.AckWait + settleWithin
)

// settlePause and settleMost are the initial and the longest pause between attempts.
const (
	settlePause = time.Second
	settleMost  = time.Minute
)

// settlePredecessors completes the work of previous processes.
func (j *Journal) settlePredecessors() {
	tried := sync.OnceFunc(func() { close(j.previous.tried) })
	defer tried()
	if j.retryUntilDone(j.settleLists, tried) {
		close(j.previous.settled)
		j.retryUntilDone(j.settleRetries, tried)
	}
}

// retryUntilDone repeats try until it succeeds or the journal is closed, and reports whether it
// succeeded. It calls failed after each failure. During an outage, it waits for the store.
func (j *Journal) retryUntilDone(try func(context.Context) error, failed func()) bool {
	for wait := settlePause; ; {
		err := try(j.Ctx)
		if err == nil || j.Ctx.Err() != nil {
			return err == nil
		}
		failed()
		j.Log.Warn("completing the work of the previous process failed; will retry", "error", err)
		if _, down := j.Status.Writable(); down != nil {
			err = j.AwaitStore()
		} else {
			err = pause.For(j.Ctx, wait)
			wait = min(2*wait, settleMost)
		}
		if err != nil {
			return false
		}
	}
}

// settleLists completes the lists of failed calls.
func (j *Journal) settleLists(ctx context.Context) error {
	if err := j.markAllReplays(ctx); err != nil {
		return err
	}
	since, err := j.unsettledSince(ctx)
	if err != nil {
		return err
	}
	if len(j.previous.causes) > 0 {
		since = time.Unix(0, 0) // any message of FAILED may be missing
	}
	if err := j.settleOutcomes(ctx, since, func(*record.Outcome) bool { return true }); err != nil {
		return err
	}
	return j.JS.Purge(ctx, j.Names.Stream(record.StreamState), j.unsettledSubject(), 0)
}

// unsettledSince returns the time before which all stored outcomes are applied. It stores the time
// until the later outcomes are applied too, by this process or by the next one.
func (j *Journal) unsettledSince(ctx context.Context) (time.Time, error) {
	switch m, err := j.JS.Last(ctx, j.Names.Stream(record.StreamState), j.unsettledSubject()); {
	case err == nil:
		var since time.Time
		err = since.UnmarshalText(m.Data)
		return since, err
	case !errors.Is(err, jetstream.ErrMsgNotFound):
		return time.Time{}, err
	}
	outcomes, err := j.Measure(ctx, record.StreamOutcomes)
	if err != nil {
		return time.Time{}, err
	}
	since := outcomes.LastTime.Add(-settleWithin)
	m := nats.NewMsg(j.unsettledSubject())
	if m.Data, err = since.MarshalText(); err == nil {
		_, err = j.Publish(ctx, m)
	}
	return since, err
}

func (j *Journal) unsettledSubject() string { return j.Names.Subject("s", "unsettled") }

// settleRetries restores retries that are missing in RETRY, because RETRY is not synced with each
// message. It also makes retries due that are delayed because the clock stepped back.
func (j *Journal) settleRetries(ctx context.Context) error {
	if err := j.restoreRetries(ctx, j.ledger.Destinations()...); err != nil {
		return err
	}
	return j.rescheduleAhead(ctx)
}

// settleOutcomes stores the failed calls of matching outcomes if they are not stored yet.
//
// If several processes ended the same attempt, the first outcome counts, even if it is older than
// since.
func (j *Journal) settleOutcomes(ctx context.Context, since time.Time, match func(*record.Outcome) bool) error {
	missing := map[string]bool{} // subjects of messages that are not in FAILED
	err := j.eachOutcome(ctx, 0, since, func(o *record.Outcome) error {
		if !match(o) {
			return nil
		}
		listed, err := j.isListed(ctx, o)
		if err == nil && !listed {
			missing[j.failedSubject(o)] = true
		}
		return err
	})
	if err != nil || len(missing) == 0 {
		return err
	}
	return j.eachOutcome(ctx, 1, time.Time{}, func(o *record.Outcome) error {
		subject := j.failedSubject(o)
		if !missing[subject] || !j.isCurrent(o) {
			return nil
		}
		delete(missing, subject)
		if len(o.Failed) == 0 {
			return nil
		}
		return j.restoreFailed(ctx, o)
	})
}

// listFailed stores the failed calls of outcomes if they are not stored yet. The outcomes must be in order, and each
// must be the first one of its attempt.
func (j *Journal) listFailed(ctx context.Context, all []record.Outcome) error {
	if len(all) == 0 {
		return nil
	}
	listed := map[string]bool{} // subjects
	end := all[len(all)-1].Decided.Add(settleWithinShared)
	t := j.Tail(record.StreamFailed, 0, func(m *jetstream.RawStreamMsg) error {
		if m.Time.After(end) {
			return store.ErrEnough
		}
		listed[m.Subject] = true
		return nil
	})
	t.Since, t.HeadersOnly = all[0].Decided, true
	if err := t.Scan(ctx); err != nil {
		return err
	}
	for i := range all {
		o := &all[i]
		isListed := listed[j.failedSubject(o)]
		if !isListed { // the calls may have been stored later
			err := j.Retry(ctx, func(ctx context.Context) (err error) {
				isListed, err = j.isListed(ctx, o)
				return err
			})
			if err != nil {
				return err
			}
		}
		if !isListed {
			if err := j.restoreFailed(ctx, o); err != nil {
				return err
			}
		}
	}
	return nil
}

// isListed reports whether FAILED contains all failed calls of an outcome. It returns true if the outcome has none,
// or if its destination is no longer attached.
func (j *Journal) isListed(ctx context.Context, o *record.Outcome) (bool, error) {
	if len(o.Failed) == 0 || !j.isCurrent(o) {
		return true, nil
	}
	_, err := j.JS.Last(ctx, j.Names.Stream(record.StreamFailed), j.failedSubject(o))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return false, nil
	}
	return err == nil, err
}

// completeSince returns a time. All messages that were stored in FAILED after it are still there. Earlier messages
// may have been removed because of the limits of FAILED.
func (j *Journal) completeSince(ctx context.Context) (time.Time, error) {
	list, err := j.Measure(ctx, record.StreamFailed)
	since := time.Now().Add(-j.options.KeepFailed)
	// If the list is less than half full, no messages were removed because of its size.
	if list.FirstTime.After(since) && list.Bytes > uint64(j.options.FailedBytes)/2 {
		since = list.FirstTime
	}
	return since, err
}

// failedSubject returns the subject of the FAILED message of an outcome.
func (j *Journal) failedSubject(o *record.Outcome) string {
	return j.Names.Subject("f", record.Token(o.Destination), record.FailedRef{Number: o.Ref.Number(), Attempt: o.Attempt}.Token())
}

// eachOutcome calls f with the stored outcomes, starting with message next. If next is 0, it starts with
// the outcomes that were stored at the time since.
func (j *Journal) eachOutcome(ctx context.Context, next uint64, since time.Time, f func(*record.Outcome) error) error {
	t := j.TailOutcomes(next, func(m *record.Outcomes) error {
		for i := range m.All {
			m.All[i].Decided = m.At // only outcomes with retries contain a time
			if err := f(&m.All[i]); err != nil {
				return err
			}
		}
		return nil
	})
	t.Since, t.Batch = since, 100
	return t.Scan(ctx)
}

// restoreFailed stores the failed calls of an outcome.
func (j *Journal) restoreFailed(ctx context.Context, o *record.Outcome) error {
	m, bodies, err := j.LoadCalls(ctx, o.Ref.Seq)
	if store.IsMissing(err) {
		return nil // the calls have failed because the message is missing
	}
	if err != nil {
		return err
	}
	var failed []tracking.Call
	var traces event.Traces
	all := record.Traces(m.Traces, m.Calls)
	for _, f := range o.Failed {
		if f.Place >= len(bodies) {
			return nil // the calls have failed because the message is corrupt
		}
		call, err := event.ReadCall(m.SourceName(), bodies[f.Place])
		if err != nil {
			call = tracking.Call{Source: m.SourceName(), Body: bodies[f.Place], ReceivedAt: m.At}
		}
		traces = traces.With(len(failed), all.At(f.Place))
		failed = append(failed, call)
	}
	return j.storeFailed(ctx, o, failed, traces)
}

// dropUnfailed removes calls from FAILED that the ledger does not count as failed. Such calls are
// still pending, because their outcome was lost. Without other damage, only recent outcomes can be
// lost.
func (j *Journal) dropUnfailed(ctx context.Context) error {
	failed, err := j.Measure(ctx, record.StreamFailed)
	if err != nil || failed.Msgs == 0 {
		return err
	}
	since := failed.LastTime.Add(-settleWithin)
	if len(j.previous.causes) > 0 {
		since = time.Unix(0, 0)
	}
	var unfailed []uint64
	t := j.TailFailed("*", 0, func(f *record.FailedMessage) error {
		j.ledger.With(f.Destination, func(a *ledger.Account) {
			if ref := record.RefOf(f.Ref.Number); !a.Tried(ref, f.Ref.Attempt) {
				unfailed = append(unfailed, f.Seq)
			}
		})
		return nil
	})
	t.Since, t.HeadersOnly = since, true
	if err := t.Scan(ctx); err != nil {
		return err
	}
	for _, seq := range unfailed {
		if err := j.JS.Delete(ctx, j.Names.Stream(record.StreamFailed), seq); err != nil {
			return err
		}
	}
	return nil
}
