package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/queue"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/tracecontext"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// Settle does what follows from an outcome that is stored: it schedules the next
// attempt and keeps the failed calls. To do it twice does no harm.
//
// given are the calls that it gave up, and traces those of them.
func (j *Journal) Settle(o *record.Outcome, given []tracking.Call, traces tracecontext.List) error {
	ctx := j.Ctx
	if len(o.Again) > 0 && !record.IsParked(o.Due.UnixNano()) {
		if err := j.schedule(ctx, o.Destination, nextAttempt(o)); err != nil {
			return fmt.Errorf("scheduling a retry: %w", err)
		}
	}
	if len(given) > 0 && j.concerns(o) {
		if err := j.keepFailed(ctx, o, given, traces); err != nil {
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

// SettleFor does what follows from outcomes about messages of CALLS, which a process
// may have stored just before it died: the messages came again.
func (j *Journal) SettleFor(ctx context.Context, destination string, messages []uint64) error {
	since := unsettledBefore(time.Now())
	came := map[uint64]bool{}
	for _, seq := range messages {
		came[seq] = true
	}
	err := j.settleOutcomes(ctx, since, func(o *record.Outcome) bool {
		return o.Destination == destination && came[o.Ref.Seq]
	})
	if err != nil {
		return err
	}
	for _, w := range j.waitingRetries([]string{destination}, func(ref record.Ref, r ledger.Waiting) bool {
		return came[ref.Seq] && !record.IsParked(r.Due)
	}) {
		if _, err := j.restoreIfMissing(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// SettleSince does what follows from outcomes that another process has stored since a time,
// or shortly before, and makes all retries that are missing.
func (j *Journal) SettleSince(ctx context.Context, destination string, since time.Time) error {
	err := j.settleOutcomes(ctx, unsettledBefore(since), func(o *record.Outcome) bool { return o.Destination == destination })
	if err != nil {
		return err
	}
	return j.restoreRetries(ctx, destination)
}

// settleLatest lists what any process has given up at a destination for as short a time that
// it may be about to.
func (j *Journal) settleLatest(ctx context.Context, destination string) error {
	outcomes, err := j.Measure(ctx, record.StreamOutcomes)
	if err != nil {
		return err
	}
	return j.settleOutcomes(ctx, outcomes.LastTime.Add(-store.PublishPatience), func(o *record.Outcome) bool { return o.Destination == destination })
}

// unsettledBefore returns the time from which on outcomes may be stored of which a process
// that died has not done what follows, and no other has yet: their messages come again.
func unsettledBefore(t time.Time) time.Time { return t.Add(-3*queue.AckWait - unsettled) }

// settlePause is how long it is waited at first, and settleMost at most, before what
// could not be done is tried again while the store can be written to.
const (
	settlePause = time.Second
	settleMost  = time.Minute
)

// settleEarlier does what earlier processes left undone.
func (j *Journal) settleEarlier() {
	tried := sync.OnceFunc(func() { close(j.left.tried) })
	defer tried()
	if j.untilDone(j.settleLists, tried) {
		close(j.left.settled)
		j.untilDone(j.settleRetries, tried)
	}
}

// untilDone tries until it succeeds or the journal is closed, and reports which. It calls
// failed whenever it has to try again. During an outage it waits for the store.
func (j *Journal) untilDone(try func(context.Context) error, failed func()) bool {
	for wait := settlePause; ; {
		err := try(j.Ctx)
		if err == nil || j.Ctx.Err() != nil {
			return err == nil
		}
		failed()
		j.Log.Warn("what an earlier process left undone could not be done; it is tried again", "error", err)
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
	if err := j.restoreRetries(ctx, j.ledger.Destinations()...); err != nil {
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
			return fmt.Errorf("message %d of OUTCOMES: %w", seq, err)
		}
		stored, err := m.Metadata()
		if err != nil {
			return err
		}
		for i := range outcomes {
			o := &outcomes[i]
			if len(o.Failed) == 0 || !match(o) {
				continue
			}
			o.Decided = stored.Timestamp // they need not say
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
	var traces tracecontext.List
	all := record.Traces(m.Traces, m.Calls)
	for _, f := range o.Failed {
		if f.Place >= len(bodies) {
			return fmt.Errorf("%w: message %d has no call %d", record.ErrBadSegment, o.Ref.Seq, f.Place)
		}
		call, err := fields.ReadCall(m.SourceName(), bodies[f.Place])
		if err != nil {
			return err
		}
		traces = traces.With(len(given), all.At(f.Place))
		given = append(given, call)
	}
	return j.keepFailed(ctx, o, given, traces)
}

// dropUnfailed removes from FAILED the calls that the account does not count as
// failed: the outcome that said so is gone, and they are pending still. Without a
// loss it can only be of what was stored last.
func (j *Journal) dropUnfailed(ctx context.Context) error {
	failed, err := j.Measure(ctx, record.StreamFailed)
	if err != nil || failed.Msgs == 0 {
		return err
	}
	since := failed.LastTime.Add(-unsettled)
	if len(j.left.causes) > 0 {
		since = time.Unix(0, 0)
	}
	var unfailed []uint64
	t := j.Tail(record.StreamFailed, 0, func(m jetstream.Msg, seq uint64) error {
		f, err := record.ParseFailed(seq, m.Subject(), m.Headers(), m.Data())
		if err != nil {
			return err
		}
		_, rest := j.Names.Kind(m.Subject())
		tok, _, _ := strings.Cut(rest, ".")
		destination, err := record.Untoken(tok)
		if err != nil {
			return err
		}
		j.ledger.With(destination, func(b *ledger.Account) {
			if ref := record.RefOf(f.Ref.Number); !b.Tried(ref, f.Ref.Attempt) {
				unfailed = append(unfailed, seq)
			}
		})
		return nil
	})
	t.Since, t.Subjects, t.HeadersOnly = since, []string{j.Names.Subject("f", "*", "*")}, true
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
