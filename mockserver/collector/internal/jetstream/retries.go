package jetstream

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
)

// retryLead is how long before its time the server delivers a retry. The process then waits for
// the exact time, because the server checks its schedules at most four times a second.
const retryLead = 600 * time.Millisecond

func nextAttempt(o *record.Outcome) *record.Retry {
	return &record.Retry{Ref: o.Ref, Attempt: o.Attempt + 1, Places: o.Again, Notes: o.Notes, Decided: o.Decided, Due: o.Due}
}

// schedule publishes a retry, which the server keeps until shortly before its time. Each part of a
// CALLS message has at most one retry. The retry of a later attempt replaces it. If the clock has
// stepped back, schedule can also replace the retry of the same attempt.
func (j *Journal) schedule(ctx context.Context, destination string, it *record.Retry) error {
	waits := false
	j.ledger.With(destination, func(a *ledger.Account) {
		r, ok := a.Retries[it.Ref]
		waits, it.From = ok && r.Attempt == it.Attempt, r.Outcome
	})
	if !waits {
		return nil // the attempt is finished, or the destination was detached
	}
	_, err := j.Publish(ctx, j.retryMessage(destination, it, time.Now()))
	return err
}

// retryMessage encodes a retry. The message has a schedule if the retry is in the future.
func (j *Journal) retryMessage(destination string, it *record.Retry, now time.Time) *nats.Msg {
	number, t := strconv.FormatUint(it.Ref.Number(), 10), record.Token(destination)
	due := j.Names.Subject("due", t, number)
	m := nats.NewMsg(due)
	m.Data = it.Encode()
	if at := it.DueFrom(now).Add(-retryLead); at.After(now) || it.IsAhead(now) {
		m.Subject = j.Names.Subject("at", t, number)
		m.Header.Set("Nats-Schedule", "@at "+at.UTC().Format(time.RFC3339Nano))
		m.Header.Set("Nats-Schedule-Target", due)
	}
	return m
}

// restoreRetries publishes the retries of the destinations that are missing in RETRY.
func (j *Journal) restoreRetries(ctx context.Context, destinations ...string) error {
	missing, err := j.restoreMissing(ctx, j.ledger.Retries(destinations, func(r ledger.Retry) bool { return !record.IsParked(r.Due) }))
	if missing > 0 {
		j.Log.Info("restored missing retries", "retries", missing)
	}
	return err
}

// restoreMissing publishes the retries that are missing in RETRY and returns their number.
func (j *Journal) restoreMissing(ctx context.Context, all []ledger.Retry) (int, error) {
	if len(all) == 0 {
		return 0, nil
	}
	stored := map[string]bool{}
	err := j.EachRetry(ctx, func(destination, number string) { stored[destination+"."+number] = true })
	if err != nil {
		return 0, err
	}
	var missing []ledger.Retry
	for _, r := range all {
		has := stored[record.Token(r.Destination)+"."+strconv.FormatUint(r.Ref.Number(), 10)]
		if has && record.IsParked(r.Due) { // it may be a previous attempt, which another process has leased and will remove
			if has, err = j.HasRetry(ctx, r.Destination, r.Ref, r.Attempt); err != nil {
				return 0, err
			}
		}
		if !has {
			missing = append(missing, r)
		}
	}
	return len(missing), j.restoreEach(ctx, missing)
}

// rescheduleAhead makes retries due now if the clock has stepped back after they were scheduled.
// Otherwise the server would delay the retries by the size of the step.
func (j *Journal) rescheduleAhead(ctx context.Context) error {
	now := time.Now()
	ahead := j.ledger.Retries(j.ledger.Destinations(), func(r ledger.Retry) bool {
		return record.IsAhead(r.Decided, now) && !record.IsParked(r.Due)
	})
	if len(ahead) == 0 {
		return nil
	}
	if err := j.restoreEach(ctx, ahead); err != nil {
		return err
	}
	for _, r := range ahead {
		j.ledger.With(r.Destination, func(a *ledger.Account) {
			if a.Retries[r.Ref] == r.PendingRetry { // otherwise the attempt is finished
				r.Decided, r.Due = now.UnixNano(), now.UnixNano()
				a.Retries[r.Ref] = r.PendingRetry
			}
		})
	}
	j.Log.Warn("the clock has stepped back; scheduled retries are due now", "retries", len(ahead))
	return nil
}

// restoreEach publishes retries. If they are in the order of their outcomes, it reads each message of
// OUTCOMES only once.
func (j *Journal) restoreEach(ctx context.Context, all []ledger.Retry) error {
	var notes store.Notes
	for _, r := range all {
		it := r.Stored()
		err := notes.Add(ctx, j.Store, r.Destination, &it)
		if err == nil {
			err = j.schedule(ctx, r.Destination, &it)
		}
		if err != nil {
			return fmt.Errorf("journal: restoring a retry for %q: %w", r.Destination, err)
		}
	}
	return nil
}

// RestoreRetry publishes a retry again.
func (j *Journal) RestoreRetry(ctx context.Context, r ledger.Retry) error {
	return j.restoreEach(ctx, []ledger.Retry{r})
}

// repairRetries publishes late retries that are missing in RETRY. Normally, none are missing.
func (j *Journal) repairRetries(ctx context.Context) error {
	const most = 100
	overdue := time.Now().Add(-2 * settleWithin).UnixNano()
	for _, name := range j.ledger.Destinations() {
		if j.queues.AnyOrder(name) { // a killed process may have parked calls before the order was changed
			if err := j.unpark(ctx, name, overdue); err != nil {
				return err
			}
		}
		late := 0
		for _, r := range j.ledger.Retries([]string{name}, func(r ledger.Retry) bool {
			if r.Due >= overdue || record.IsParked(r.Due) || late == most {
				return false
			}
			late++
			return true
		}) {
			if j.queues.Has(name, r.Ref) {
				continue
			}
			restored, err := j.restoreIfMissing(ctx, r)
			if err != nil {
				return err
			}
			if restored {
				j.Log.Warn("restored a missing retry", "destination", name, "message", r.Ref.Seq, "attempt", r.Attempt)
			}
		}
	}
	return nil
}

// restoreIfMissing publishes a retry if it is missing in RETRY, and reports whether it was missing.
func (j *Journal) restoreIfMissing(ctx context.Context, r ledger.Retry) (bool, error) {
	stored, err := j.HasRetry(ctx, r.Destination, r.Ref, r.Attempt)
	if err != nil || stored {
		return false, err
	}
	return true, j.RestoreRetry(ctx, r)
}

// Unpark publishes the parked retries of a destination, which are due now. It omits retries that
// another process has already published.
func (j *Journal) Unpark(ctx context.Context, destination string) error {
	return j.unpark(ctx, destination, math.MaxInt64)
}

// unpark is like Unpark, but only for retries that were parked before a Unix time in nanoseconds.
func (j *Journal) unpark(ctx context.Context, destination string, before int64) error {
	_, err := j.restoreMissing(ctx, j.ledger.Retries([]string{destination}, func(r ledger.Retry) bool {
		return record.IsParked(r.Due) && r.Decided < before
	}))
	return err
}
