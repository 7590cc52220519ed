package jetstream

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

const (
	// earliness is how long before its time a retry is handed to a process, which
	// then holds it: the server looks at its schedules four times a second at most.
	earliness = 600 * time.Millisecond
)

// Settle does what follows from an outcome that is stored: it schedules the next
// attempt and keeps the failed calls. To do it twice does no harm.
//
// given are the calls that it gave up.
func (j *Journal) Settle(o *record.Outcome, given []tracking.Call) error {
	ctx := j.Ctx
	if len(o.Again) > 0 {
		if err := j.schedule(ctx, o.Destination, nextAttempt(o)); err != nil {
			return fmt.Errorf("scheduling a retry: %w", err)
		}
	}
	if len(given) > 0 && j.concerns(o) {
		if err := j.keepFailed(ctx, o, given); err != nil {
			return fmt.Errorf("keeping failed calls: %w", err)
		}
	}
	return nil
}

// concerns reports whether an outcome is about a destination as it is attached now.
func (j *Journal) concerns(o *record.Outcome) bool {
	same := false
	return j.ledger.With(o.Destination, func(b *ledger.Account) { same = b.Attached == o.Attached }) && same
}

// nextAttempt returns the next attempt of an outcome.
func nextAttempt(o *record.Outcome) *record.Retry {
	return &record.Retry{Ref: o.Ref, Attempt: o.Attempt + 1, Places: o.Again, Notes: o.Notes, Decided: o.Decided, Due: o.Due}
}

// schedule publishes a retry: to be held by the server until its time, or, where
// that is near, at once. There is one message for each part of a message of
// calls; the next attempt replaces the one before. Where the clock has stepped back
// the server may hold a schedule for this attempt that is far ahead, and gets another
// in its place.
func (j *Journal) schedule(ctx context.Context, destination string, it *record.Retry) error {
	waits := false
	j.ledger.With(destination, func(b *ledger.Account) {
		r, ok := b.Retries[it.Ref]
		waits, it.From = ok && r.Attempt == it.Attempt, r.Outcome
	})
	if !waits {
		return nil // it has ended, or the destination was detached
	}
	_, err := j.Publish(ctx, j.retryMessage(destination, it, time.Now()))
	return err
}

// retryMessage returns the message of RETRY that schedules a retry.
func (j *Journal) retryMessage(destination string, it *record.Retry, now time.Time) *nats.Msg {
	number, t := strconv.FormatUint(it.Ref.Number(), 10), record.Token(destination)
	due := j.Names.Subject("due", t, number)
	m := nats.NewMsg(due)
	m.Data = it.Encode()
	if at := it.DueFrom(now).Add(-earliness); at.After(now) || it.IsAhead(now) {
		m.Subject = j.Names.Subject("at", t, number)
		m.Header.Set("Nats-Schedule", "@at "+at.UTC().Format(time.RFC3339Nano))
		m.Header.Set("Nats-Schedule-Target", due)
	}
	return m
}
