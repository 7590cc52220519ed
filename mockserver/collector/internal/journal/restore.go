package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// An extent is what a stream has.
type extent struct {
	first, last uint64
	holes       []span // messages between that are gone
}

func (j *Journal) extent(ctx context.Context, stream jetstream.Stream) (extent, error) {
	info, err := stream.Info(ctx)
	if err != nil {
		return extent{}, fmt.Errorf("journal: %w", err)
	}
	e := extent{first: info.State.FirstSeq, last: info.State.LastSeq}
	if info.State.NumDeleted == 0 {
		return e, nil
	}
	if info, err = stream.Info(ctx, jetstream.WithDeletedDetails(true)); err != nil {
		return extent{}, fmt.Errorf("journal: %w", err)
	}
	for _, seq := range info.State.Deleted {
		if n := len(e.holes); n > 0 && e.holes[n-1].last+1 == seq {
			e.holes[n-1].last = seq
		} else {
			e.holes = append(e.holes, span{seq, seq})
		}
	}
	return e, nil
}

// restore finds the account to begin with, and checks that what was stored is
// there.
func (j *Journal) restore(ctx context.Context) error {
	if j.options.AcceptLoss {
		j.findUnreadable(ctx)
	}
	// Others may go on meanwhile: the streams have at least what a checkpoint that
	// was read before has, and a base that is read after tells what they lack.
	checkpoints, err := j.loadCheckpoints(ctx)
	if err != nil {
		return err
	}
	calls, outcomes, base, lost, err := j.compare(ctx, checkpoints)
	for look := 1; err == nil && lost != nil && j.options.NATS != nil && look < leaderLooks; look++ {
		if err = sleep(ctx, leaderPause); err == nil {
			calls, outcomes, base, lost, err = j.compare(ctx, checkpoints)
		}
	}
	if err != nil {
		return err
	}
	switch {
	case lost == nil:
		j.account = base
		for _, a := range checkpoints {
			if a.calls+a.outcomes > j.account.calls+j.account.outcomes {
				j.account = a
			}
		}
		return nil
	case !j.lossIsAccepted():
		return lost
	}
	j.log.Error("calls or outcomes were lost; the journal goes on without them", "error", lost)
	if err := j.forgetCheckpoints(ctx); err != nil {
		return err
	}
	base.lost, base.gone = append(base.lost, calls.holes...), append(base.gone, outcomes.holes...)
	j.account = base
	read := calls.last + 1
	for _, a := range checkpoints {
		read = max(read, a.calls)
	}
	// Both streams get a message, so that there is a last one to be read.
	end := nats.NewMsg(j.names.subject("o"))
	end.Data = newOutcomes(writeID{})
	// What outcomes before it say of others may be about some that are lost.
	if base.lowAfter, err = j.publish(ctx, j.nc, end); err != nil {
		return err
	}
	return j.skipLost(ctx, calls.last+1, read, outcomes)
}

// compare measures the streams, and tells what they lack.
func (j *Journal) compare(ctx context.Context, checkpoints []*account) (calls, outcomes extent, base *account, lost, err error) {
	if calls, err = j.extent(ctx, j.calls); err != nil {
		return calls, outcomes, nil, nil, err
	}
	if outcomes, err = j.extent(ctx, j.outcomes); err != nil {
		return calls, outcomes, nil, nil, err
	}
	if base, _, err = j.loadBase(ctx); err != nil {
		return calls, outcomes, nil, nil, err
	}
	calls.begin(base.calls + 1)
	outcomes.begin(base.outcomes + 1)
	return calls, outcomes, base, j.findLoss(calls, outcomes, checkpoints), nil
}

// begin takes it for a hole that a stream does not begin where it should.
func (e *extent) begin(first uint64) {
	if e.first > first {
		e.holes = append([]span{{first, e.first - 1}}, e.holes...)
	}
}

// findUnreadable reads all: the server then counts what it cannot read as gone.
func (j *Journal) findUnreadable(ctx context.Context) {
	for _, kind := range []string{streamCalls, streamOutcomes} {
		t := j.tail(kind, 1, func(*nats.Msg, uint64) error { return nil })
		t.headersOnly = true
		if err := t.scan(ctx); err != nil {
			j.log.Error("not all that is stored can be read", "stream", kind, "error", err)
		}
	}
}

// findLoss compares what is there with what must be.
func (j *Journal) findLoss(calls, outcomes extent, checkpoints []*account) error {
	unknown := func(holes []span, known func(*account, span) bool) []span {
		return slices.DeleteFunc(slices.Clone(holes), func(hole span) bool {
			return slices.ContainsFunc(checkpoints, func(a *account) bool { return known(a, hole) })
		})
	}
	if holes := unknown(calls.holes, (*account).isKnownLoss); len(holes) > 0 {
		return damaged("CALLS has lost messages %v of %d to %d. %s", holes, calls.first, calls.last, j.howToGoOn())
	}
	if holes := unknown(outcomes.holes, (*account).isGone); len(holes) > 0 {
		return damaged("OUTCOMES has lost messages %v of %d to %d. %s", holes, outcomes.first, outcomes.last, j.howToGoOn())
	}
	for _, a := range checkpoints {
		if a.calls > calls.last || a.outcomes > outcomes.last {
			return damaged("CALLS ends at message %d and OUTCOMES at %d, but %d and %d were stored. %s",
				calls.last, outcomes.last, a.calls, a.outcomes, j.howToGoOn())
		}
	}
	return nil
}

// lossIsAccepted tells whether the journal may go on without what is lost.
func (j *Journal) lossIsAccepted() bool {
	return j.options.AcceptLoss || j.options.NATS == nil && j.options.SyncInterval > 0
}

func (j *Journal) howToGoOn() string {
	where := "the directory " + j.options.Dir
	if j.options.NATS != nil {
		where = "the streams"
	}
	return "Nothing was removed. Restore " + where + " from a backup, or start once with --accept-loss to go on with what is left"
}

func (j *Journal) forgetCheckpoints(ctx context.Context) error {
	return j.state.Purge(ctx, jetstream.WithPurgeSubject(j.names.subject("s", "account", ">")))
}

// catchUp reads what was stored since the account was.
func (j *Journal) catchUp(ctx context.Context) error {
	for {
		outcomes, err := j.extent(ctx, j.outcomes)
		if err != nil {
			return err
		}
		calls, err := j.extent(ctx, j.calls) // after, so that it has all that outcomes are about
		if err != nil {
			return err
		}
		j.sawCalls(calls.last)
		a, beyond := j.account, uint64(0)
		err = a.await(ctx, func() bool {
			if a.awaited > calls.last {
				beyond = a.awaited
			}
			return a.broken != nil || a.calls >= calls.last && (a.outcomes >= outcomes.last || beyond > 0)
		})
		switch {
		case err != nil:
			return fmt.Errorf("journal: reading what is stored: %w", err)
		case a.failure() != nil:
			return a.failure()
		case a.hasRead(outcomes.last):
			return nil
		}
		reached, err := j.callsReach(ctx, beyond)
		switch {
		case err != nil:
			return err
		case reached:
			continue
		case !j.lossIsAccepted():
			return damaged("CALLS ends at message %d, but there are outcomes about message %d. %s", calls.last, beyond, j.howToGoOn())
		}
		if err := j.skipLost(ctx, calls.last+1, calls.last, outcomes); err != nil {
			return err
		}
	}
}

// callsReach tells whether CALLS has a message, by a newer look than the one by
// which it was missed: another collector may have stored it since, and a server
// of a cluster that has just become the leader needs a moment to know its own.
func (j *Journal) callsReach(ctx context.Context, seq uint64) (bool, error) {
	for look := 0; ; look++ {
		calls, err := j.extent(ctx, j.calls)
		if err != nil || calls.last >= seq || j.options.NATS == nil || look == leaderLooks {
			return err == nil && calls.last >= seq, err
		}
		if err := sleep(ctx, leaderPause); err != nil {
			return false, err
		}
	}
}

// A new leader of a stream is given this often this long to know all it has.
const (
	leaderLooks = 20
	leaderPause = 250 * time.Millisecond
)

// skipLost uses up the numbers of messages that were lost, from first to last or
// to the last one that there are outcomes about: these must not be taken for
// outcomes about others.
func (j *Journal) skipLost(ctx context.Context, first, last uint64, outcomes extent) error {
	t := j.tail(streamOutcomes, outcomes.first, func(m *nats.Msg, _ uint64) error {
		_, decoded, err := decodeOutcomes(m.Data)
		for i := range decoded {
			last = max(last, decoded[i].ref.seq)
		}
		return err
	})
	if err := t.scan(ctx); err != nil {
		return err
	}
	if last < first {
		return nil
	}
	j.log.Error("accepted calls were lost at the end of CALLS; the journal goes on without them", "messages", last-first+1)
	for seq := first; seq <= last; {
		m := nats.NewMsg(j.names.subject(kindLost))
		m.Header.Set(headerControl, control{First: first, Last: last}.header())
		stored, err := j.publish(ctx, j.nc, m)
		if err != nil {
			return err
		}
		if stored < seq {
			return errors.New("journal: CALLS counts backwards")
		}
		seq = stored + 1
	}
	return nil
}
