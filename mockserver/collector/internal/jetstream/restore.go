package jetstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

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
	s, err := j.compare(ctx, checkpoints)
	for look := 1; err == nil && s.lost != nil && j.options.NATS != nil && look < leaderLooks; look++ {
		if err = sleep(ctx, leaderPause); err == nil {
			s, err = j.compare(ctx, checkpoints)
		}
	}
	if err != nil {
		return err
	}
	switch {
	case s.lost == nil && len(j.causes) == 0:
		j.account = s.newest
		return nil
	case s.lost != nil && !j.options.AcceptLoss && !(j.tornOff() && s.young):
		return s.lost
	}
	return j.acceptLoss(ctx, s)
}

// A stock is what there is, and what it is compared with.
type stock struct {
	calls, outcomes extent
	base            *account // of what was removed
	stored          uint64   // the message of STATE that has it; 0 where there is none
	newest          *account // the base, or a newer checkpoint
	beyond          uint64   // the last message of CALLS that something is known of
	lost            error    // what is lacking
	young           bool     // all of that is younger than the newest checkpoint
}

// compare measures the streams, and tells what they lack.
func (j *Journal) compare(ctx context.Context, checkpoints []*account) (s stock, err error) {
	if s.calls, err = j.extent(ctx, j.calls); err != nil {
		return s, err
	}
	if s.outcomes, err = j.extent(ctx, j.outcomes); err != nil {
		return s, err
	}
	var lacking []string
	if s.base, s.stored, err = j.loadBase(ctx); err != nil && (!errors.Is(err, ErrDamaged) || !j.options.AcceptLoss) {
		return s, err
	}
	if err != nil || j.kept != nil && j.kept.base != nil && j.kept.base.calls > s.base.calls {
		lacking = append(lacking, "STATE has lost the account of what was removed")
		if s.base == nil {
			s.base = newAccount()
		}
		if j.kept != nil && j.kept.base != nil {
			s.base = j.kept.base
		}
	}
	if j.kept != nil {
		more, err := j.lacks(ctx, j.kept)
		if err != nil {
			return s, err
		}
		lacking = append(lacking, more...)
	}
	s.newest, s.young = s.base, len(checkpoints) > 0 && len(lacking) == 0
	for _, a := range checkpoints {
		if a.calls+a.outcomes > s.newest.calls+s.newest.outcomes {
			s.newest = a
		}
	}
	s.calls.begin(s.base.purged + 1)
	s.outcomes.begin(s.base.outcomes + 1)
	if err := j.findBeyond(ctx, &s); err != nil {
		return s, err
	}
	j.findLoss(&s, checkpoints, lacking)
	return s, nil
}

// findBeyond finds up to where CALLS must reach: outcomes may be about messages that
// it has no longer.
func (j *Journal) findBeyond(ctx context.Context, s *stock) error {
	s.beyond = s.newest.calls
	for _, m := range j.accepted {
		s.beyond = max(s.beyond, m.seq)
	}
	if j.options.NATS != nil {
		return nil // others go on: it is looked for while the account is read
	}
	t := j.tail(streamOutcomes, s.newest.outcomes+1, func(m *nats.Msg, _ uint64) error {
		_, decoded, err := decodeOutcomes(m.Data)
		for i := range decoded {
			s.beyond = max(s.beyond, decoded[i].ref.seq)
		}
		return err
	})
	return t.scan(ctx)
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
func (j *Journal) findLoss(s *stock, checkpoints []*account, lacking []string) {
	unknown := func(holes []span, known func(*account, span) bool) []span {
		return slices.DeleteFunc(slices.Clone(holes), func(hole span) bool {
			return slices.ContainsFunc(append(checkpoints, s.base), func(a *account) bool { return known(a, hole) })
		})
	}
	lack := func(format string, args ...any) { lacking = append(lacking, fmt.Sprintf(format, args...)) }
	if holes := unknown(s.calls.holes, (*account).isKnownLoss); len(holes) > 0 {
		s.young = s.young && holes[0].first > s.newest.calls
		lack("CALLS has lost messages %v of %d to %d", holes, s.calls.first, s.calls.last)
	}
	if holes := unknown(s.outcomes.holes, (*account).isGone); len(holes) > 0 {
		s.young = s.young && holes[0].first > s.newest.outcomes
		lack("OUTCOMES has lost messages %v of %d to %d", holes, s.outcomes.first, s.outcomes.last)
	}
	for _, a := range checkpoints {
		if a.calls > s.calls.last || a.outcomes > s.outcomes.last {
			s.young = false
			lack("CALLS ends at message %d and OUTCOMES at %d, but %d and %d were stored", s.calls.last, s.outcomes.last, a.calls, a.outcomes)
			break
		}
	}
	if s.beyond > s.calls.last && s.beyond > s.newest.calls {
		lack("CALLS ends at message %d, but message %d was acknowledged", s.calls.last, s.beyond)
	}
	if len(lacking) > 0 {
		s.lost = damaged("%s. %s", strings.Join(lacking, "; "), j.howToGoOn())
		j.causes = append(j.causes, lacking...)
	}
}

// tornOff reports whether what was stored last may be gone as expected: it is brought
// to the disk now and then, and the process did not end by itself.
func (j *Journal) tornOff() bool {
	return j.options.NATS == nil && j.options.SyncInterval > 0 && !j.clean
}

func (j *Journal) howToGoOn() string {
	where := "the directory " + j.options.Dir
	if j.options.NATS != nil {
		where = "the streams"
	}
	return "Nothing was removed. Restore " + where + " from a backup, or start once with --accept-loss to go on with what is left"
}

func (j *Journal) forgetCheckpoints(ctx context.Context) error {
	if err := j.forgetSnapshots(); err != nil {
		return err
	}
	return j.state.Purge(ctx, jetstream.WithPurgeSubject(j.names.subject("s", "account", ">")))
}

// catchUp reads what was stored since the account was.
func (j *Journal) catchUp(ctx context.Context) error {
	for began := time.Now(); ; {
		outcomes, err := j.extent(ctx, j.outcomes)
		if err != nil {
			return err
		}
		calls, err := j.extent(ctx, j.calls) // after, so that it has all that outcomes are about
		if err != nil {
			return err
		}
		j.sawCalls(calls.last)
		a := j.account
		stop := every(tellEvery, func() {
			readCalls, readOutcomes := a.position()
			j.log.Info("what is stored is being read; calls are taken then", "for", time.Since(began).Round(time.Second),
				"calls", fmt.Sprintf("%d of %d", readCalls, calls.last), "outcomes", fmt.Sprintf("%d of %d", readOutcomes, outcomes.last))
		})
		beyond, err := a.readUpTo(ctx, calls.last, outcomes.last)
		stop()
		switch {
		case a.failure() != nil:
			return a.failure()
		case err != nil:
			return fmt.Errorf("journal: reading what is stored: %w", err)
		case a.hasRead(outcomes.last):
			return nil
		}
		reached, err := j.callsReach(ctx, beyond)
		switch {
		case err != nil:
			return err
		case reached:
			continue
		case !j.options.AcceptLoss:
			return damaged("CALLS ends at message %d, but there are outcomes about message %d. %s", calls.last, beyond, j.howToGoOn())
		}
		if err := j.useUp(ctx, calls.last+1, beyond); err != nil {
			return err
		}
	}
}

// every calls f now and then until stop is called.
func every(d time.Duration, f func()) (stop func()) {
	tick, done := time.NewTicker(d), make(chan struct{})
	go func() {
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				f()
			case <-done:
				return
			}
		}
	}()
	return func() { close(done) }
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

// useUp uses up the numbers of messages that were lost at the end of CALLS: what is
// stored about these must not be taken for what is stored about others.
func (j *Journal) useUp(ctx context.Context, first, last uint64) error {
	if last < first {
		return nil
	}
	j.log.Error("messages were lost at the end of CALLS; their numbers are not used again", "messages", last-first+1)
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
