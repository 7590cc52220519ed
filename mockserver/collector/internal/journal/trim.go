package journal

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
)

const (
	// trimEvery is how often what is no longer needed is removed.
	trimEvery = time.Minute
	// trimStep bounds how many messages of CALLS one step removes.
	trimStep = 50_000
	// trimAbove is the share of MaxBytes above which calls that are done go before
	// their time, down to trimTo.
	trimAbove = 0.75
	trimTo    = 0.5
)

// keepTrimmed removes what is no longer needed, now and then and when space gets
// short. The server does not do that by itself: it would not know what is
// pending.
func (j *Journal) keepTrimmed() {
	for pause := trimEvery / 4; ; pause = trimEvery {
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-j.trimSoon:
			timer.Stop()
		case <-j.ctx.Done():
			timer.Stop()
			return
		}
		if _, err := j.health.up(); err != nil {
			continue
		}
		if err := errors.Join(j.hastenRetries(j.ctx), j.repairRetries(j.ctx)); err != nil && j.ctx.Err() == nil {
			j.log.Warn("retries that are overdue could not be looked after; it is tried again", "error", err)
		}
		if err := j.Trim(j.ctx); err != nil && j.ctx.Err() == nil {
			j.log.Warn("old calls are not removed; it is tried again", "error", err)
		}
	}
}

// Trim gives up the calls that are pending for longer than Options.Keep, and
// removes those that every destination is done with and that are as old, or
// younger ones if space is short. It is done every minute.
func (j *Journal) Trim(ctx context.Context) error {
	j.trimming.Lock()
	defer j.trimming.Unlock()
	if err := j.open(); err != nil {
		return err
	}
	err := j.trim(ctx)
	if err != nil && j.open() != nil {
		return journal.ErrClosed // meanwhile
	}
	return err
}

func (j *Journal) trim(ctx context.Context) error {
	old, err := j.firstSince(ctx, time.Now().Add(-j.options.Keep))
	if err != nil {
		return err
	}
	if err := j.expire(ctx, old); err != nil {
		return fmt.Errorf("journal: giving up calls that are older than %v: %w", j.options.Keep, err)
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
		to := min(wanted, j.account.finished(), base.calls+trimStep)
		if to <= base.calls {
			return j.measure(ctx)
		}
		err = j.trimTo(ctx, base, stored, to)
		if isWrongSequence(err) {
			return nil // another process does it
		}
		if err != nil {
			return err
		}
	}
}

// firstSince returns the first message of CALLS that was stored since, or the
// one that will be next.
func (j *Journal) firstSince(ctx context.Context, since time.Time) (uint64, error) {
	info, err := j.calls.Info(ctx)
	if err != nil {
		return 0, err
	}
	if info.State.Msgs == 0 || info.State.FirstTime.After(since) {
		return info.State.FirstSeq, nil
	}
	first := info.State.LastSeq + 1
	t := j.tail(streamCalls, 0, func(_ *nats.Msg, seq uint64) error {
		first = seq
		return errEnough
	})
	t.since, t.headersOnly, t.batch = since, true, 1
	return first, t.scan(ctx)
}

// wantedTrim returns up to which message CALLS should be removed: all that are
// older than Keep, more where space is short, and all where the disk is full.
func (j *Journal) wantedTrim(ctx context.Context, old uint64) (uint64, error) {
	info, err := j.calls.Info(ctx)
	if err != nil {
		return 0, err
	}
	s, limit := info.State, float64(j.options.MaxBytes)
	if j.usage.isDiskFull() {
		return s.LastSeq, nil
	}
	wanted := old - 1
	if used := float64(s.Bytes); used > trimAbove*limit && s.Msgs > 0 {
		short := s.FirstSeq + uint64(float64(s.LastSeq-s.FirstSeq+1)*(1-trimTo*limit/used))
		wanted = max(wanted, short)
	}
	return wanted, nil
}

// finished returns the message of CALLS up to which every destination is done.
func (a *account) finished() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	finished := a.calls
	for _, b := range a.books {
		if b.fresh > 0 {
			finished = min(finished, b.floor)
		}
		for ref := range b.retries {
			finished = min(finished, ref.seq-1)
		}
	}
	return finished
}

var errUnfinished = errors.New("not every outcome is there")

// trimTo counts what is to be removed, stores that, and removes it. What was
// counted is what is removed, and not what the account in memory says.
func (j *Journal) trimTo(ctx context.Context, base *account, stored, to uint64) error {
	if err := j.countTo(ctx, base, to); err != nil {
		return fmt.Errorf("journal: counting CALLS from message %d to %d: %w", base.calls+1, to, err)
	}
	if err := j.markAllReplays(ctx); err != nil { // while CALLS still has them
		return err
	}
	if err := j.storeBase(ctx, base, stored); err != nil {
		return err
	}
	if err := j.calls.Purge(ctx, jetstream.WithPurgeSequence(base.calls+1)); err != nil {
		return err
	}
	return j.outcomes.Purge(ctx, jetstream.WithPurgeSequence(base.outcomes+1))
}

// countTo takes the messages of CALLS up to one, and all outcomes about them,
// into an account.
func (j *Journal) countTo(ctx context.Context, base *account, to uint64) error {
	calls := j.tail(streamCalls, base.calls+1, func(m *nats.Msg, seq uint64) error {
		if seq > to {
			return errEnough
		}
		parsed, err := j.names.parseCalls(seq, m.Subject, m.Header)
		if err == nil {
			base.readCalls(parsed)
		}
		if err == nil && seq == to {
			err = errEnough
		}
		return err
	})
	calls.headersOnly, calls.whole, calls.must = true, base.isKnownLoss, to
	if err := calls.scan(ctx); err != nil {
		return err
	}
	base.calls, base.purged = to, to
	// Outcomes speak of the lowest message that had not ended, which may be beyond.
	lowAfter := base.lowAfter
	base.lowAfter = math.MaxUint64
	defer func() { base.lowAfter = lowAfter }()
	var read, beyond uint64
	outcomes := j.tail(streamOutcomes, base.outcomes+1, func(m *nats.Msg, seq uint64) error {
		_, decoded, err := decodeOutcomes(m.Data)
		if err != nil {
			return err
		}
		for i := range decoded {
			if o := &decoded[i]; o.ref.seq <= to {
				base.count(o, seq)
			} else if beyond == 0 {
				beyond = seq
			}
		}
		if read = seq; base.isFinished() {
			return errEnough
		}
		return nil
	})
	outcomes.whole = base.isGone
	if base.isFinished() {
		return nil // nothing was for anyone
	}
	if err := outcomes.scan(ctx); err != nil {
		return err
	}
	if !base.isFinished() {
		return errUnfinished
	}
	base.finish(to)
	if base.outcomes = read; beyond > 0 {
		base.outcomes = beyond - 1
	}
	return nil
}

// isFinished tells whether nothing is pending.
func (a *account) isFinished() bool {
	for _, b := range a.books {
		if b.fresh != 0 || len(b.retries) > 0 {
			return false
		}
	}
	return true
}

// finish moves the floors up to a message up to which all is done.
func (a *account) finish(to uint64) {
	for _, b := range a.books {
		b.rise(to)
	}
}
