package journal

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

	"github.com/seed-45eadc4a/analytics-go/mockserver"
)

// unsettled is how long before the end of a process something may have been
// stored of which what follows was not done.
const unsettled = time.Minute

// settleAll does what follows from what an earlier process stored last, and makes
// the retries again that RETRY no longer has: it is not brought to the disk with
// each message.
func (j *Journal) settleAll(ctx context.Context) error {
	info, err := j.calls.Info(ctx)
	if err != nil {
		return err
	}
	if err := j.settleReplays(ctx, info.State.LastTime.Add(-unsettled)); err != nil {
		return err
	}
	if info, err = j.outcomes.Info(ctx); err != nil {
		return err
	}
	since := info.State.LastTime.Add(-unsettled)
	if err := j.settleOutcomes(ctx, since, func(*outcome) bool { return true }); err != nil {
		return err
	}
	return j.restoreRetries(ctx)
}

// settleReplays takes calls that were replayed off the lists of failed ones.
func (j *Journal) settleReplays(ctx context.Context, since time.Time) error {
	t := j.tail(streamCalls, 0, func(m *nats.Msg, seq uint64) error {
		parsed, err := j.names.parseCalls(seq, m.Subject, m.Header)
		if err != nil {
			return err
		}
		return j.markReplayed(ctx, parsed.name, parsed.failed)
	})
	t.since, t.subjects, t.headersOnly = since, []string{j.names.subject(kindReplay, "*")}, true
	return t.scan(ctx)
}

// settleOutcomes keeps the failed calls of outcomes that match, where they are
// not kept yet.
func (j *Journal) settleOutcomes(ctx context.Context, since time.Time, match func(*outcome) bool) error {
	t := j.tail(streamOutcomes, 0, func(m *nats.Msg, seq uint64) error {
		_, outcomes, err := decodeOutcomes(m.Data)
		if err != nil {
			return err
		}
		for i := range outcomes {
			o := &outcomes[i]
			if len(o.failed) == 0 || !match(o) {
				continue
			}
			if err := j.restoreFailed(ctx, o); err != nil {
				return err
			}
		}
		return nil
	})
	t.since, t.batch = since, 100
	return t.scan(ctx)
}

// restoreFailed keeps the failed calls of an outcome, if they are not kept.
func (j *Journal) restoreFailed(ctx context.Context, o *outcome) error {
	subject := j.names.subject("f", token(o.destination), failedRef{Number: o.ref.number(), Attempt: o.attempt}.token())
	if _, err := j.failed.GetLastMsgForSubject(ctx, subject); !errors.Is(err, jetstream.ErrMsgNotFound) {
		return err
	}
	if !j.concerns(o) {
		return nil
	}
	m, bodies, err := j.load(ctx, o.ref.seq)
	if isMissing(err) {
		return nil // it was given up because it is
	}
	if err != nil {
		return err
	}
	var given []mockserver.Call
	for _, f := range o.failed {
		if f.place >= len(bodies) {
			return fmt.Errorf("%w: message %d has no call %d", errBadSegment, o.ref.seq, f.place)
		}
		call, err := mockserver.ReadCall(m.sourceName(), bodies[f.place])
		if err != nil {
			return err
		}
		given = append(given, call)
	}
	return j.keepFailed(ctx, o, given)
}

// A waiting is a retry that a destination waits for.
type waiting struct {
	destination string
	ref         callsRef
	retry       retry
}

// restoreRetries publishes the retries that RETRY does not have.
func (j *Journal) restoreRetries(ctx context.Context) error {
	var all []waiting
	j.account.mu.Lock()
	for name, b := range j.account.books {
		for ref, r := range b.retries {
			all = append(all, waiting{name, ref, r})
		}
	}
	j.account.mu.Unlock()
	if len(all) == 0 {
		return nil
	}
	stored, err := j.storedRetries(ctx)
	if err != nil {
		return err
	}
	// Those that one message of OUTCOMES tells of are made from one reading of it.
	slices.SortFunc(all, func(x, y waiting) int { return cmp.Compare(x.retry.outcome, y.retry.outcome) })
	var read readOutcomes
	restored := 0
	for _, w := range all {
		if stored[token(w.destination)+"."+strconv.FormatUint(w.ref.number(), 10)] {
			continue
		}
		if err := j.restoreRetry(ctx, w, &read); err != nil {
			return fmt.Errorf("journal: making a retry for %q again: %w", w.destination, err)
		}
		restored++
	}
	if restored > 0 {
		j.log.Info("retries that were not on the disk were made again", "retries", restored)
	}
	return nil
}

// repairRetries makes retries again that are long overdue and that RETRY does not
// have. There should be none.
func (j *Journal) repairRetries(ctx context.Context) error {
	const most = 100
	overdue := time.Now().Add(-2 * unsettled).UnixNano()
	for _, name := range j.account.names() {
		late := map[callsRef]retry{}
		j.account.with(name, func(b *book) {
			for ref, r := range b.retries {
				if r.due < overdue && len(late) < most {
					late[ref] = r
				}
			}
		})
		for ref, r := range late {
			stored, err := j.isStored(ctx, name, ref)
			if err == nil && !stored && !j.isAtWork(name, ref) {
				j.log.Warn("a retry was missing; it is made again", "destination", name, "message", ref.seq, "attempt", r.attempt)
				err = j.restoreRetry(ctx, waiting{name, ref, r}, new(readOutcomes))
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// isAtWork tells whether this process has the entry.
func (j *Journal) isAtWork(destination string, ref callsRef) bool {
	j.mu.Lock()
	q := j.queues[destination]
	j.mu.Unlock()
	if q == nil {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.items[ref] != nil
}

// storedRetries returns the destinations and numbers of those in RETRY.
func (j *Journal) storedRetries(ctx context.Context) (map[string]bool, error) {
	stream, err := j.js.Stream(ctx, j.names.stream(streamRetry))
	if err != nil {
		return nil, err
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(j.names.subject(">")))
	if err != nil {
		return nil, err
	}
	stored := make(map[string]bool, len(info.State.Subjects))
	for subject := range info.State.Subjects {
		_, rest, _ := strings.Cut(strings.TrimPrefix(subject, j.names.prefix+"."), ".")
		stored[rest] = true
	}
	return stored, nil
}

// restoreRetry publishes a retry as its outcome says.
func (j *Journal) restoreRetry(ctx context.Context, w waiting, read *readOutcomes) error {
	it := &item{ref: w.ref, attempt: w.retry.attempt, due: time.Unix(0, w.retry.due)}
	if w.retry.outcome != 0 {
		o, err := read.outcome(ctx, j, w.retry.outcome, w.destination, w.ref)
		if err != nil {
			return err
		}
		it.places, it.notes = o.again, o.notes
	}
	return j.schedule(ctx, w.destination, it)
}

// A readOutcomes is the message of OUTCOMES that was read last, so that one of many
// outcomes is not read for each of them.
type readOutcomes struct {
	seq      uint64
	outcomes []outcome
}

// outcome returns the outcome about a destination and calls in a message.
func (r *readOutcomes) outcome(ctx context.Context, j *Journal, seq uint64, destination string, ref callsRef) (*outcome, error) {
	if r.seq != seq {
		raw, err := j.outcomes.GetMsg(ctx, seq)
		if err == nil {
			_, r.outcomes, err = decodeOutcomes(raw.Data)
		}
		if err != nil {
			r.seq = 0
			return nil, fmt.Errorf("message %d of OUTCOMES: %w", seq, err)
		}
		r.seq = seq
	}
	for i := range r.outcomes {
		if o := &r.outcomes[i]; o.destination == destination && o.ref == ref {
			return o, nil
		}
	}
	return nil, fmt.Errorf("message %d of OUTCOMES says nothing about %q and message %d of CALLS", seq, destination, ref.seq)
}
