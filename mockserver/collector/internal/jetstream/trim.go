package jetstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
)

const (
	trimEvery = time.Minute
	// trimStep is the maximum number of messages of CALLS that one step removes.
	trimStep = 50_000
	// Above this share of MaxBytes, finished calls are removed early, down to trimTo.
	trimAbove = 0.75
	trimTo    = 0.5
)

// trimPeriodically trims every minute, and when space is short. The server cannot remove messages
// automatically, because it does not know which calls are pending.
func (j *Journal) trimPeriodically() {
	last := "" // the last error that was logged
	for wait := trimEvery / 4; ; wait = trimEvery {
		pause.Until(j.Ctx, time.Now().Add(wait), j.trimmer.soon)
		if j.Ctx.Err() != nil {
			return
		}
		if _, err := j.Status.Writable(); err != nil {
			continue
		}
		if err := errors.Join(j.rescheduleAhead(j.Ctx), j.repairRetries(j.Ctx)); err != nil && j.Ctx.Err() == nil {
			j.Log.Warn("checking late retries failed; will retry", "error", err)
		}
		switch err := j.Trim(j.Ctx); {
		case err == nil:
			last = ""
		case err.Error() != last && j.Ctx.Err() == nil:
			last = err.Error()
			j.Log.Warn("removing old calls failed; will retry", "error", err)
		}
	}
}

// Trim fails the calls that have been pending for longer than Options.Keep. It removes finished calls
// of that age, and younger finished calls if space is short. It runs every minute. If the store is not
// writable, it returns an error instead of waiting, because Verify waits for Trim.
func (j *Journal) Trim(ctx context.Context) error {
	ctx, stop, err := j.WritableContext(ctx, 0)
	if err != nil {
		return err
	}
	defer stop()
	if err := j.trimmer.running.LockContext(ctx); err != nil {
		return err
	}
	defer j.trimmer.running.Unlock()
	if err := j.open(); err != nil {
		return err
	}
	err = j.trim(ctx)
	if err != nil && j.open() != nil {
		return journal.ErrClosed // the journal was closed in the meantime
	}
	return err
}

func (j *Journal) trim(ctx context.Context) error {
	old, err := j.firstSince(ctx, time.Now().Add(-j.options.Keep))
	if err != nil {
		return err
	}
	readCalls, _ := j.ledger.Position()
	old = min(old, readCalls+1)
	if err := j.expire(ctx, old); err != nil {
		return fmt.Errorf("journal: expiring calls older than %v: %w", j.options.Keep, err)
	}
	for {
		wanted, err := j.wantedTrim(ctx, old)
		if err != nil {
			return err
		}
		base, stored, err := j.loadBase(ctx)
		if err != nil {
			return err
		}
		to := min(wanted, j.ledger.Finished(), base.Purged+trimStep)
		if base.Purged < base.Calls { // after an accepted loss
			to = min(to, base.Calls)
		}
		if to <= base.Purged {
			return j.measure(ctx)
		}
		before := base.Purged
		err = j.trimTo(ctx, base, stored, to)
		if store.IsWrongSequence(err) {
			return nil // another process is trimming
		}
		if errors.Is(err, record.ErrDamaged) {
			return j.unlessTrimmed(ctx, before, fmt.Errorf("%w. %s", err, j.options.repairHint()))
		}
		if err != nil {
			return err
		}
	}
}

// unlessTrimmed returns damaged, an error about missing messages. It returns nil if a process has removed messages of
// CALLS after the message with the number after, because the missing messages may be among them.
func (j *Journal) unlessTrimmed(ctx context.Context, after uint64, damaged error) error {
	trimmed, err := j.isTrimmed(ctx, after+1)
	if trimmed {
		return nil
	}
	return errors.Join(damaged, err)
}

// isTrimmed reports whether any process has removed a message of CALLS, or is removing it.
func (j *Journal) isTrimmed(ctx context.Context, seq uint64) (bool, error) {
	base, _, err := j.loadBase(ctx)
	return err == nil && base.Purged >= seq, err
}

// firstSince returns the sequence number of the first message of CALLS stored since a time. If there is
// none, it returns the next sequence number.
func (j *Journal) firstSince(ctx context.Context, since time.Time) (uint64, error) {
	calls, err := j.Measure(ctx, record.StreamCalls)
	if err != nil {
		return 0, err
	}
	if calls.Msgs == 0 || calls.FirstTime.After(since) {
		return calls.FirstSeq, nil
	}
	first := calls.LastSeq + 1
	t := j.Tail(record.StreamCalls, 0, func(m *jetstream.RawStreamMsg) error {
		first = m.Sequence
		return store.ErrEnough
	})
	t.Since, t.HeadersOnly, t.Batch = since, true, 1
	err = t.Scan(ctx)
	return first, err
}

// wantedTrim returns the last message of CALLS to remove. It selects the messages that are older than
// Keep, more messages if space is short, and all messages if the disk is full.
func (j *Journal) wantedTrim(ctx context.Context, old uint64) (uint64, error) {
	s, err := j.Measure(ctx, record.StreamCalls)
	if err != nil {
		return 0, err
	}
	limit := float64(j.options.MaxBytes)
	if j.incoming.usage.diskFull.Load() {
		return s.LastSeq, nil
	}
	wanted := old - 1
	if used := float64(s.Bytes); used > trimAbove*limit && s.Msgs > 0 {
		short := s.FirstSeq + uint64(float64(s.LastSeq-s.FirstSeq+1)*(1-trimTo*limit/used))
		wanted = max(wanted, short)
	}
	return wanted, nil
}

var errUnfinished = errors.New("some outcomes are missing")

// trimTo recounts the messages to remove, stores the result as the new base, and removes
// them. It does not use the ledger in memory.
func (j *Journal) trimTo(ctx context.Context, base *ledger.Ledger, stored, to uint64) error {
	first := base.Purged + 1
	if err := j.countTo(ctx, base, to); err != nil {
		return fmt.Errorf("journal: counting CALLS, starting at message %d: %w", first, err)
	}
	if err := j.awaitSettled(ctx); err != nil { // the recovery needs these messages
		return err
	}
	if err := j.markAllReplays(ctx); err != nil { // it reads replays from CALLS
		return err
	}
	if err := j.storeBase(ctx, base, stored); err != nil {
		return err
	}
	if err := j.JS.Purge(ctx, j.Names.Stream(record.StreamCalls), "", base.Purged+1); err != nil {
		return err
	}
	return j.JS.Purge(ctx, j.Names.Stream(record.StreamOutcomes), "", base.FirstOutcome())
}

// countTo counts messages of CALLS and their outcomes in the base. The last message has the sequence number to.
// After an accepted loss, the base already contains later messages and their pending calls.
func (j *Journal) countTo(ctx context.Context, base *ledger.Ledger, to uint64) error {
	counted, unattempted := to <= base.Calls, int64(0)
	calls := j.TailCalls(base.Purged+1, func(parsed *record.Calls) error {
		if base.ReadCalls(parsed); counted {
			for _, a := range base.Accounts {
				unattempted += a.UnattemptedIn(parsed)
			}
		}
		return nil
	})
	calls.Whole, calls.Last, calls.Must = base.IsLostCall, to, true
	if err := calls.Scan(ctx); err != nil {
		return err
	}
	if !counted {
		base.Calls, unattempted = to, base.Unattempted()
	}
	base.Purged = to
	if pending := unattempted + base.WaitingCalls(to); pending > 0 {
		if err := j.countOutcomes(ctx, base, to, pending); err != nil {
			return err
		}
	}
	base.Finish(to)
	return nil
}

// countOutcomes adds the outcomes of all pending calls up to a message to the base. It also stores failed calls that
// are missing from FAILED, because a process may have been killed before it stored them.
func (j *Journal) countOutcomes(ctx context.Context, base *ledger.Ledger, to uint64, pending int64) error {
	complete, err := j.completeSince(ctx)
	if err != nil {
		return err
	}
	// Outcome.Low may refer to messages after to.
	base.Frozen = true
	defer func() { base.Frozen = false }()
	var read, beyond uint64
	var failed []record.Outcome
	outcomes := j.TailOutcomes(base.Outcomes+1, func(m *record.Outcomes) error {
		for i := range m.All {
			if o := &m.All[i]; o.Ref.Seq > to {
				beyond = cmp.Or(beyond, m.Seq)
			} else if base.Count(o, m.Seq) {
				pending -= int64(o.Calls() - len(o.Again))
				if o.Decided = m.At; len(o.Failed) > 0 && m.At.After(complete) {
					failed = append(failed, *o)
				}
			}
		}
		if read = m.Seq; pending == 0 {
			return store.ErrEnough
		}
		return nil
	})
	outcomes.Whole = base.IsLostOutcome
	if err := outcomes.Scan(ctx); err != nil {
		return err
	}
	if pending != 0 {
		return errUnfinished
	}
	if err := j.listFailed(ctx, failed); err != nil {
		return err
	}
	if base.Outcomes = read; beyond > 0 {
		base.Outcomes = beyond - 1
	}
	return nil
}

// expire fails the pending calls of the messages before a sequence number. The destination may have
// been paused or down for as long as calls are kept. The calls are listed as failed.
func (j *Journal) expire(ctx context.Context, before uint64) error {
	for _, destination := range j.ledger.Behind(before) {
		old := map[record.Ref]int{} // pending attempt of each part
		var attached, floor uint64
		j.ledger.With(destination, func(a *ledger.Account) {
			attached, floor = a.Attached, a.Floor
			for ref, r := range a.Retries {
				if ref.Seq < before {
					old[ref] = r.Attempt
				}
			}
		})
		ended, err := j.undelivered(ctx, destination, floor, before, old)
		if err != nil {
			return err
		}
		for _, ref := range j.queues.Leased(destination) {
			delete(old, ref) // the lease is still in progress
			ended = min(ended, ref.Seq-1)
		}
		reason := fmt.Sprintf("it was still pending after %v, the time for which calls are kept", j.options.Keep)
		for ref, attempt := range old {
			if err := j.queues.Expire(ctx, destination, attached, ref, attempt, reason); err != nil {
				return err
			}
		}
		// The queue of a paused destination has no results that would advance the floor.
		j.ledger.Advance(destination, attached, ended)
		if len(old) > 0 {
			j.Log.Warn("pending calls expired; they failed permanently", "destination", destination, "entries", len(old), "kept", j.options.Keep)
		}
	}
	return nil
}

// undelivered adds the parts of old messages that have an unfinished first attempt. It returns the last message
// that it has read.
func (j *Journal) undelivered(ctx context.Context, destination string, floor, before uint64, old map[record.Ref]int) (last uint64, err error) {
	t := j.TailCalls(floor+1, func(parsed *record.Calls) error {
		j.ledger.With(destination, func(a *ledger.Account) {
			for ref := range a.UnattemptedParts(parsed) {
				old[ref] = 1
			}
		})
		return nil
	})
	t.Subjects, t.Last = j.Names.CallSubjects(nil), before-1
	err = t.Scan(ctx)
	return t.End(), err
}

// trimIfShort triggers a trim if space is short.
func (j *Journal) trimIfShort() {
	if float64(j.incoming.usage.bytes()) > trimAbove*float64(j.options.MaxBytes) {
		store.Poke(j.trimmer.soon)
	}
}

// measure updates the usage from the server.
func (j *Journal) measure(ctx context.Context) error {
	calls, err := j.Measure(ctx, record.StreamCalls)
	if err != nil {
		return err
	}
	j.incoming.usage.set(int64(calls.Bytes))
	return nil
}
