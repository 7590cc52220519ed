package journal

import (
	"cmp"
	"context"
	"encoding/json"
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
	stored := map[string]bool{}
	err := j.eachStoredRetry(ctx, func(destination, number string) { stored[destination+"."+number] = true })
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

// eachStoredRetry calls f with the destination, as a token, and the number of each of
// those in RETRY. The server tells some of them at a time. What comes and goes
// meanwhile may be left out, or come twice.
func (j *Journal) eachStoredRetry(ctx context.Context, f func(destination, number string)) error {
	for offset := 0; ; {
		subjects, err := j.retrySubjects(ctx, offset)
		if err != nil || len(subjects) == 0 {
			return err
		}
		for subject := range subjects {
			_, rest := j.names.kind(subject)
			destination, number, _ := strings.Cut(rest, ".")
			f(destination, number)
		}
		offset += len(subjects)
	}
}

// retrySubjects returns subjects of RETRY, in their order from a place on.
func (j *Journal) retrySubjects(ctx context.Context, offset int) (map[string]uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, requestPatience)
	defer cancel()
	request := fmt.Appendf(nil, `{"subjects_filter":%q,"offset":%d}`, j.names.subject(">"), offset)
	answer, err := j.nc.RequestWithContext(ctx, "$JS.API.STREAM.INFO."+j.names.stream(streamRetry), request)
	if err != nil {
		return nil, fmt.Errorf("listing RETRY: %w", err)
	}
	var info struct {
		Error *serverError `json:"error"`
		Total int          `json:"total"`
		State struct {
			Subjects map[string]uint64 `json:"subjects"`
		} `json:"state"`
	}
	if err := json.Unmarshal(answer.Data, &info); err != nil {
		return nil, fmt.Errorf("listing RETRY: the server's answer cannot be read: %w", err)
	}
	if info.Error != nil {
		return nil, fmt.Errorf("listing RETRY: %w", info.Error)
	}
	if offset >= info.Total {
		return nil, nil
	}
	return info.State.Subjects, nil
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
