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
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// unsettled is how long before the end of a process something may have been
// stored of which what follows was not done.
const unsettled = time.Minute

// settlePause is how long it is waited at first, and settleMost at most, before what
// could not be done is tried again.
const (
	settlePause = time.Second
	settleMost  = time.Minute
	// listPatience is how long it may take to list what RETRY has: the server tells some
	// of it at a time.
	listPatience = 30 * time.Second
)

// settleEarlier does what earlier processes left undone.
func (j *Journal) settleEarlier() {
	if !j.untilDone(j.settleLists) {
		return
	}
	close(j.left.settled)
	j.untilDone(j.settleRetries)
}

// untilDone tries until it succeeds or the journal is closed, and reports which.
func (j *Journal) untilDone(try func(context.Context) error) bool {
	for wait := settlePause; ; wait = min(2*wait, settleMost) {
		err := try(j.Ctx)
		if err == nil || j.Ctx.Err() != nil {
			return err == nil
		}
		j.Log.Warn("what an earlier process left undone could not be done; it is tried again", "error", err, "in", wait)
		if pause.For(j.Ctx, wait) != nil {
			return false
		}
	}
}

// awaitSettled waits until the lists of failed calls are settled: before, calls that
// failed may not be listed, and calls that were replayed still be.
func (j *Journal) awaitSettled(ctx context.Context) error {
	select {
	case <-j.left.settled:
		return nil
	case <-j.Ctx.Done():
		return journal.ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("journal: what an earlier process left undone is not done yet: %w", context.Cause(ctx))
	}
}

// settleLists does for the lists of failed calls what follows from what an earlier
// process stored last.
func (j *Journal) settleLists(ctx context.Context) error {
	if err := j.markAllReplays(ctx); err != nil {
		return err
	}
	since, err := j.unsettledSince(ctx)
	if err != nil {
		return err
	}
	if len(j.left.causes) > 0 {
		since = time.Unix(0, 0) // of FAILED, anything may be gone
	}
	if err := j.settleOutcomes(ctx, since, func(*record.Outcome) bool { return true }); err != nil {
		return err
	}
	return j.JS.Purge(ctx, j.Names.Stream(record.StreamState), j.unsettledSubject(), 0)
}

// unsettledSince returns the time from which on it may not be done what follows from
// outcomes. It is stored until all is done: this process may fail to, or be killed, when
// outcomes of its own have come.
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
	since := outcomes.LastTime.Add(-unsettled)
	m := nats.NewMsg(j.unsettledSubject())
	if m.Data, err = since.MarshalText(); err == nil {
		_, err = j.Publish(ctx, m)
	}
	return since, err
}

func (j *Journal) unsettledSubject() string { return j.Names.Subject("s", "unsettled") }

// settleRetries makes the retries again that RETRY no longer has, which is not brought
// to the disk with each message, and those due that wait for a clock that has stepped
// back.
func (j *Journal) settleRetries(ctx context.Context) error {
	if err := j.restoreRetries(ctx); err != nil {
		return err
	}
	return j.hastenRetries(ctx)
}

// settleOutcomes keeps the failed calls of outcomes that match, where they are
// not kept yet.
func (j *Journal) settleOutcomes(ctx context.Context, since time.Time, match func(*record.Outcome) bool) error {
	t := j.Tail(record.StreamOutcomes, 0, func(m jetstream.Msg, seq uint64) error {
		_, outcomes, err := record.DecodeOutcomes(m.Data())
		if err != nil {
			return err
		}
		for i := range outcomes {
			o := &outcomes[i]
			if len(o.Failed) == 0 || !match(o) {
				continue
			}
			if err := j.restoreFailed(ctx, o); err != nil {
				return err
			}
		}
		return nil
	})
	t.Since, t.Batch = since, 100
	return t.Scan(ctx)
}

// restoreFailed keeps the failed calls of an outcome, if they are not kept.
func (j *Journal) restoreFailed(ctx context.Context, o *record.Outcome) error {
	subject := j.Names.Subject("f", record.Token(o.Destination), record.FailedRef{Number: o.Ref.Number(), Attempt: o.Attempt}.Token())
	if _, err := j.JS.Last(ctx, j.Names.Stream(record.StreamFailed), subject); !errors.Is(err, jetstream.ErrMsgNotFound) {
		return err
	}
	if !j.concerns(o) {
		return nil
	}
	m, bodies, err := j.LoadCalls(ctx, o.Ref.Seq)
	if store.IsMissing(err) {
		return nil // it was given up because it is
	}
	if err != nil {
		return err
	}
	var given []tracking.Call
	for _, f := range o.Failed {
		if f.Place >= len(bodies) {
			return fmt.Errorf("%w: message %d has no call %d", record.ErrBadSegment, o.Ref.Seq, f.Place)
		}
		call, err := fields.ReadCall(m.SourceName(), bodies[f.Place])
		if err != nil {
			return err
		}
		given = append(given, call)
	}
	return j.keepFailed(ctx, o, given)
}

// A waitingRetry is a retry that a destination waits for.
type waitingRetry struct {
	destination string
	ref         record.Ref
	retry       ledger.Waiting
}

// restoreRetries publishes the retries that RETRY does not have.
func (j *Journal) restoreRetries(ctx context.Context) error {
	var all []waitingRetry
	for _, name := range j.ledger.Destinations() {
		j.ledger.With(name, func(b *ledger.Account) {
			for ref, r := range b.Retries {
				all = append(all, waitingRetry{name, ref, r})
			}
		})
	}
	if len(all) == 0 {
		return nil
	}
	stored := map[string]bool{}
	err := j.EachStoredRetry(ctx, func(destination, number string) { stored[destination+"."+number] = true })
	if err != nil {
		return err
	}
	missing := slices.DeleteFunc(all, func(w waitingRetry) bool {
		return stored[record.Token(w.destination)+"."+strconv.FormatUint(w.ref.Number(), 10)]
	})
	if err := j.restoreEach(ctx, missing); err != nil {
		return err
	}
	if len(missing) > 0 {
		j.Log.Info("retries that were not on the disk were made again", "retries", len(missing))
	}
	return nil
}

// hastenRetries makes those retries due now that were decided in the future: the clock
// has stepped back since, and the server would hold them until it is there again.
func (j *Journal) hastenRetries(ctx context.Context) error {
	now := time.Now()
	var ahead []waitingRetry
	for _, name := range j.ledger.Destinations() {
		j.ledger.With(name, func(b *ledger.Account) {
			for ref, r := range b.Retries {
				if record.IsAhead(r.Decided, now) {
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
				if r.Due < overdue && len(late) < most {
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
