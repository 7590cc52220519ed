package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"

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

// has tells whether an account that has read as far can be gone on with.
func (e extent) has(read uint64) bool { return read+1 >= e.first && read <= e.last }

// restore finds the account to begin with, and checks that what was stored is
// there.
func (j *Journal) restore(ctx context.Context) error {
	calls, err := j.extent(ctx, j.calls)
	if err != nil {
		return err
	}
	outcomes, err := j.extent(ctx, j.outcomes)
	if err != nil {
		return err
	}
	checkpoints, err := j.loadCheckpoints(ctx)
	if err != nil {
		return err
	}
	base, _, err := j.loadBase(ctx)
	if err != nil {
		return err
	}
	lost := j.findLoss(calls, outcomes, checkpoints)
	if lost != nil && !j.lossIsAccepted() {
		return lost
	}
	if lost == nil {
		for _, a := range checkpoints {
			if calls.has(a.calls) && outcomes.has(a.outcomes) {
				j.account = a
				return nil
			}
		}
	}
	if !calls.has(base.calls) || !outcomes.has(base.outcomes) {
		if !j.lossIsAccepted() {
			return damaged("STATE says that CALLS begins at message %d and OUTCOMES at %d, and they have %d to %d and %d to %d. %s",
				base.calls+1, base.outcomes+1, calls.first, calls.last, outcomes.first, outcomes.last, j.howToGoOn())
		}
		base.calls, base.outcomes = max(base.calls, calls.first-1), max(base.outcomes, outcomes.first-1)
	}
	if lost != nil {
		j.log.Error("calls or outcomes were lost; the journal goes on without them", "error", lost)
		if err := j.forgetCheckpoints(ctx); err != nil {
			return err
		}
		base.lost = append(base.lost, calls.holes...)
	}
	j.account = base
	return nil
}

// findLoss compares what is there with what must be.
func (j *Journal) findLoss(calls, outcomes extent, checkpoints []*account) error {
	known := func(hole span) bool {
		return slices.ContainsFunc(checkpoints, func(a *account) bool { return a.isLost(hole.first) && a.isLost(hole.last) })
	}
	if holes := slices.DeleteFunc(slices.Clone(calls.holes), known); len(holes) > 0 {
		return damaged("CALLS has lost messages %v of %d to %d. %s", holes, calls.first, calls.last, j.howToGoOn())
	}
	if len(outcomes.holes) > 0 {
		return damaged("OUTCOMES has lost messages %v of %d to %d. %s", outcomes.holes, outcomes.first, outcomes.last, j.howToGoOn())
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
	return "Nothing was changed. Restore " + where + " from a backup, or open it once with AcceptLoss to go on with what is left"
}

func (j *Journal) forgetCheckpoints(ctx context.Context) error {
	return j.state.Purge(ctx, jetstream.WithPurgeSubject(j.names.subject("s", "account", ">")))
}

// catchUp reads what was stored since the account was.
func (j *Journal) catchUp(ctx context.Context) error {
	for {
		calls, err := j.extent(ctx, j.calls)
		if err != nil {
			return err
		}
		outcomes, err := j.extent(ctx, j.outcomes)
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
		case beyond == 0:
			return nil
		case !j.lossIsAccepted():
			return damaged("CALLS ends at message %d, but there are outcomes about message %d. %s", calls.last, beyond, j.howToGoOn())
		}
		if err := j.skipLost(ctx, calls.last+1, outcomes); err != nil {
			return err
		}
	}
}

// skipLost uses up the numbers of messages that were lost: outcomes about them
// must not be taken for outcomes about others.
func (j *Journal) skipLost(ctx context.Context, first uint64, outcomes extent) error {
	last := first
	t := j.tail(streamOutcomes, outcomes.first, func(m *nats.Msg, _, _ uint64) error {
		_, decoded, err := decodeOutcomes(m.Data)
		for i := range decoded {
			last = max(last, decoded[i].ref.seq)
		}
		return err
	})
	if err := t.scan(ctx); err != nil {
		return err
	}
	j.log.Error("accepted calls were lost with the power; the journal goes on without them", "messages", last-first+1)
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
