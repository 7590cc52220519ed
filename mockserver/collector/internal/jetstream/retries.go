package jetstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
)

// earliness is how long before its time a retry is handed to a process, which
// then holds it: the server looks at its schedules four times a second at most.
const earliness = 600 * time.Millisecond

// listPatience is how long it may take to list what RETRY has: the server tells some
// of it at a time.
const listPatience = 30 * time.Second

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

// A waitingRetry is a retry that a destination waits for.
type waitingRetry struct {
	destination string
	ref         record.Ref
	retry       ledger.Waiting
}

// restoreRetries publishes the retries of destinations that RETRY does not have.
func (j *Journal) restoreRetries(ctx context.Context, destinations ...string) error {
	var all []waitingRetry
	for _, name := range destinations {
		j.ledger.With(name, func(b *ledger.Account) {
			for ref, r := range b.Retries {
				if !record.IsParked(r.Due) {
					all = append(all, waitingRetry{name, ref, r})
				}
			}
		})
	}
	missing, err := j.restoreMissing(ctx, all)
	if missing > 0 {
		j.Log.Info("retries that were not on the disk were made again", "retries", missing)
	}
	return err
}

// restoreMissing publishes those of the retries that RETRY does not have, and returns how
// many they are.
func (j *Journal) restoreMissing(ctx context.Context, all []waitingRetry) (int, error) {
	if len(all) == 0 {
		return 0, nil
	}
	stored := map[string]bool{}
	err := j.EachStoredRetry(ctx, func(destination, number string) { stored[destination+"."+number] = true })
	if err != nil {
		return 0, err
	}
	missing := slices.DeleteFunc(all, func(w waitingRetry) bool {
		return stored[record.Token(w.destination)+"."+strconv.FormatUint(w.ref.Number(), 10)]
	})
	return len(missing), j.restoreEach(ctx, missing)
}

// hastenRetries makes those retries due now that were decided in the future: the clock
// has stepped back since, and the server would hold them until it is there again.
func (j *Journal) hastenRetries(ctx context.Context) error {
	now := time.Now()
	var ahead []waitingRetry
	for _, name := range j.ledger.Destinations() {
		j.ledger.With(name, func(b *ledger.Account) {
			for ref, r := range b.Retries {
				if record.IsAhead(r.Decided, now) && !record.IsParked(r.Due) {
					ahead = append(ahead, waitingRetry{name, ref, r})
				}
			}
		})
	}
	if len(ahead) == 0 {
		return nil
	}
	if err := j.restoreEach(ctx, ahead); err != nil {
		return err
	}
	for _, w := range ahead {
		j.ledger.With(w.destination, func(b *ledger.Account) {
			if b.Retries[w.ref] == w.retry { // else it has ended meanwhile
				w.retry.Decided, w.retry.Due = now.UnixNano(), now.UnixNano()
				b.Retries[w.ref] = w.retry
			}
		})
	}
	j.Log.Warn("the clock has stepped back; what was to be tried again later is due now", "retries", len(ahead))
	return nil
}

// restoreEach publishes retries. Those that one message of OUTCOMES tells of are made
// from one reading of it.
func (j *Journal) restoreEach(ctx context.Context, all []waitingRetry) error {
	slices.SortFunc(all, func(x, y waitingRetry) int {
		return cmp.Or(cmp.Compare(x.retry.Outcome, y.retry.Outcome), cmp.Compare(x.ref.Number(), y.ref.Number()), cmp.Compare(x.destination, y.destination))
	})
	var read store.Outcomes
	for _, w := range all {
		if err := j.RestoreRetry(ctx, w.destination, w.ref, w.retry, &read); err != nil {
			return fmt.Errorf("journal: making a retry for %q again: %w", w.destination, err)
		}
	}
	return nil
}

// repairRetries makes retries again that are long overdue and that RETRY does not
// have. There should be none.
func (j *Journal) repairRetries(ctx context.Context) error {
	const most = 100
	overdue := time.Now().Add(-2 * unsettled).UnixNano()
	for _, name := range j.ledger.Destinations() {
		late := map[record.Ref]ledger.Waiting{}
		j.ledger.With(name, func(b *ledger.Account) {
			for ref, r := range b.Retries {
				if r.Due < overdue && !record.IsParked(r.Due) && len(late) < most {
					late[ref] = r
				}
			}
		})
		for ref, r := range late {
			stored, err := j.IsStored(ctx, name, ref)
			if err == nil && !stored && !j.queues.Has(name, ref) {
				j.Log.Warn("a retry was missing; it is made again", "destination", name, "message", ref.Seq, "attempt", r.Attempt)
				err = j.RestoreRetry(ctx, name, ref, r, new(store.Outcomes))
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// Unpark publishes the retries of a destination that are parked, as due now, but for those
// that RETRY has: another process has published them.
func (j *Journal) Unpark(ctx context.Context, destination string) error {
	var parked []waitingRetry
	j.ledger.With(destination, func(b *ledger.Account) {
		for ref, r := range b.Retries {
			if record.IsParked(r.Due) {
				parked = append(parked, waitingRetry{destination, ref, r})
			}
		}
	})
	_, err := j.restoreMissing(ctx, parked)
	return err
}

// EachStoredRetry calls f with the destination, as a token, and the number of each of
// those in RETRY. What comes and goes meanwhile may be left out.
func (j *Journal) EachStoredRetry(ctx context.Context, f func(destination, number string)) error {
	ctx, cancel := context.WithTimeout(ctx, listPatience)
	defer cancel()
	subjects, err := j.JS.Subjects(ctx, j.Names.Stream(record.StreamRetry), j.Names.Subject(">"))
	if err != nil {
		return fmt.Errorf("listing RETRY: %w", err)
	}
	for subject := range subjects {
		_, rest := j.Names.Kind(subject)
		destination, number, _ := strings.Cut(rest, ".")
		f(destination, number)
	}
	return nil
}

// RestoreRetry publishes a retry as its outcome says.
func (j *Journal) RestoreRetry(ctx context.Context, destination string, ref record.Ref, r ledger.Waiting, read *store.Outcomes) error {
	it := &record.Retry{Ref: ref, Attempt: r.Attempt, Decided: time.Unix(0, r.Decided), Due: time.Unix(0, r.Due)}
	if r.Which != (ledger.CallSet{}) {
		it.Places = r.Which.Places(ref)
	}
	if r.Outcome != 0 {
		o, err := read.Get(ctx, j.Store, r.Outcome, destination, ref)
		if err != nil {
			return err
		}
		it.Places, it.Notes = o.Again, o.Notes
	}
	return j.schedule(ctx, destination, it)
}

// IsStored reports whether RETRY has a retry.
func (j *Journal) IsStored(ctx context.Context, destination string, ref record.Ref) (bool, error) {
	for _, kind := range []string{"at", "due"} {
		_, err := j.JS.Last(ctx, j.Names.Stream(record.StreamRetry), j.Names.Subject(kind, record.Token(destination), strconv.FormatUint(ref.Number(), 10)))
		if err == nil {
			return true, nil
		}
		if !errors.Is(err, jetstream.ErrMsgNotFound) {
			return false, err
		}
	}
	return false, nil
}
