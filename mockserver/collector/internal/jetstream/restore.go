package jetstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
)

// extent returns the range of a stream's messages and its gaps.
func (j *Journal) extent(ctx context.Context, kind string) (ledger.Extent, error) {
	state, err := j.Measure(ctx, kind)
	if err != nil {
		return ledger.Extent{}, err
	}
	e := ledger.Extent{First: state.FirstSeq, Last: state.LastSeq}
	if state.NumDeleted == 0 {
		return e, nil
	}
	deleted, err := j.JS.Deleted(ctx, j.Names.Stream(kind))
	if err != nil {
		return ledger.Extent{}, fmt.Errorf("journal: %w", err)
	}
	for _, seq := range deleted {
		if n := len(e.Holes); n > 0 && e.Holes[n-1].Last+1 == seq {
			e.Holes[n-1].Last = seq
		} else {
			e.Holes = append(e.Holes, record.Span{First: seq, Last: seq})
		}
	}
	return e, nil
}

// restore loads the newest ledger and checks that no messages are missing in the streams.
func (j *Journal) restore(ctx context.Context) error {
	if j.options.AcceptLoss {
		j.findUnreadable(ctx)
	}
	// Read the checkpoints before the streams are measured, and the base afterwards, because the
	// other processes of a cluster continue to write.
	checkpoints, err := j.loadCheckpoints(ctx)
	if err != nil {
		return err
	}
	var s comparison
	err = awaitLeader(ctx, func() (incomplete bool, err error) {
		s, err = j.compare(ctx, checkpoints)
		return s.lost != nil && j.Shared, err
	})
	if err != nil {
		return err
	}
	switch {
	case s.lost == nil && len(j.previous.causes) == 0:
		j.ledger = ledger.NewLive(s.newest)
		return nil
	case s.lost != nil && !j.options.AcceptLoss && !(j.mayBeTorn() && s.onlyRecent):
		return s.lost
	}
	return j.acceptLoss(ctx, s)
}

// compare measures the streams and finds missing data.
func (j *Journal) compare(ctx context.Context, checkpoints []*ledger.Ledger) (s comparison, err error) {
	if s.outcomes, err = j.extent(ctx, record.StreamOutcomes); err != nil {
		return s, err
	}
	if s.calls, err = j.extent(ctx, record.StreamCalls); err != nil { // measured after OUTCOMES, so that it includes all calls with outcomes
		return s, err
	}
	if s.base, s.stored, err = j.loadBase(ctx); err != nil && (!errors.Is(err, record.ErrDamaged) || !j.options.AcceptLoss) {
		return s, err
	}
	if err != nil || j.previous.snapshot != nil && j.previous.snapshot.base != nil && j.previous.snapshot.base.IsAfter(s.base) {
		s.missing = append(s.missing, "STATE has lost the base of the ledger, which counts the removed messages")
		if s.base == nil {
			s.base = ledger.New()
		}
		if j.previous.snapshot != nil && j.previous.snapshot.base != nil {
			s.base = j.previous.snapshot.base
		}
	}
	if j.previous.snapshot != nil {
		more, err := j.missingFrom(ctx, j.previous.snapshot)
		if err != nil {
			return s, err
		}
		s.missing = append(s.missing, more...)
	}
	j.local.setBase(s.base.Encode())
	s.newest, s.onlyRecent = newestOf(s.base, checkpoints), len(checkpoints) > 0 && len(s.missing) == 0
	s.calls.Begin(s.base.Purged + 1)
	s.outcomes.Begin(s.base.Outcomes + 1)
	if err := j.findBeyond(ctx, &s); err != nil {
		return s, err
	}
	j.findLoss(&s, checkpoints)
	return s, nil
}

// newestOf returns the ledger with the highest position.
func newestOf(base *ledger.Ledger, checkpoints []*ledger.Ledger) *ledger.Ledger {
	return slices.MaxFunc(append([]*ledger.Ledger{base}, checkpoints...), func(x, y *ledger.Ledger) int {
		return cmp.Compare(x.Calls+x.Outcomes, y.Calls+y.Outcomes)
	})
}

// findBeyond finds the last message of CALLS that any record refers to. CALLS itself may have lost
// this message.
func (j *Journal) findBeyond(ctx context.Context, s *comparison) error {
	s.beyond = s.newest.Calls
	for _, m := range j.previous.accepted {
		s.beyond = max(s.beyond, m.Seq)
	}
	if j.Shared {
		return nil // other processes write, so catchUp checks this instead
	}
	t := j.TailOutcomes(s.newest.Outcomes+1, func(m *record.Outcomes) error {
		s.beyond = max(s.beyond, m.LastCall())
		return nil
	})
	return t.Scan(ctx)
}

// findUnreadable reads all messages. After that, the server reports unreadable messages as deleted.
func (j *Journal) findUnreadable(ctx context.Context) {
	for _, kind := range []string{record.StreamCalls, record.StreamOutcomes} {
		t := j.Tail(kind, 1, func(*jetstream.RawStreamMsg) error { return nil })
		t.HeadersOnly = true
		if err := t.Scan(ctx); err != nil {
			j.Log.Error("some stored messages are unreadable", "stream", kind, "error", err)
		}
	}
}

// mayBeTorn reports whether the last messages may be missing without damage. This is the case if
// they were not synced and the process did not close the journal.
func (j *Journal) mayBeTorn() bool {
	return j.local != nil && j.options.SyncInterval > 0 && !j.previous.clean
}

// ends returns the sequence numbers of the last messages of CALLS and OUTCOMES. It measures OUTCOMES
// first: an outcome is stored after its call, so no measured outcome refers to a message after calls.
func (j *Journal) ends(ctx context.Context) (calls, outcomes uint64, err error) {
	o, err := j.Measure(ctx, record.StreamOutcomes)
	if err != nil {
		return 0, 0, err
	}
	c, err := j.Measure(ctx, record.StreamCalls)
	return c.LastSeq, o.LastSeq, err
}

// catchUp waits until the ledger has read all stored messages.
func (j *Journal) catchUp(ctx context.Context) error {
	for began := time.Now(); ; {
		calls, outcomes, err := j.ends(ctx)
		if err != nil {
			return err
		}
		j.recordStored(calls)
		beyond, err := j.readUpTo(ctx, began, calls, outcomes)
		if err != nil {
			return fmt.Errorf("journal: reading stored messages: %w", err)
		}
		if _, read := j.ledger.Position(); read >= outcomes {
			return nil
		}
		reached, err := j.callsReach(ctx, beyond)
		switch {
		case err != nil:
			return err
		case reached:
			continue
		case !j.options.AcceptLoss:
			return record.Damaged("CALLS ends at message %d, but there are outcomes about message %d. %s", calls, beyond, j.options.repairHint())
		}
		if err := j.storePlaceholders(ctx, calls+1, beyond); err != nil {
			return err
		}
	}
}

// readUpTo waits until the ledger has read both messages, like Live.ReadUpTo, and logs the progress.
func (j *Journal) readUpTo(ctx context.Context, began time.Time, calls, outcomes uint64) (beyond uint64, err error) {
	for {
		limited, cancel := context.WithTimeout(ctx, store.WarnEvery)
		beyond, err = j.ledger.ReadUpTo(limited, calls, outcomes)
		isSlow := err != nil && limited.Err() != nil && ctx.Err() == nil
		cancel()
		if !isSlow {
			return beyond, err
		}
		readCalls, readOutcomes := j.ledger.Position()
		j.Log.Info("reading stored messages before accepting calls", "for", time.Since(began).Round(time.Second),
			"calls", fmt.Sprintf("%d of %d", readCalls, calls), "outcomes", fmt.Sprintf("%d of %d", readOutcomes, outcomes))
	}
}

// callsReach reports whether CALLS contains a message with a sequence number now. Another
// collector may have stored it since the last check.
func (j *Journal) callsReach(ctx context.Context, seq uint64) (reached bool, err error) {
	err = awaitLeader(ctx, func() (incomplete bool, err error) {
		calls, err := j.Measure(ctx, record.StreamCalls)
		reached = err == nil && calls.LastSeq >= seq
		return !reached && j.Shared, err
	})
	return reached, err
}

// A new leader of a stream may take some time to report all messages of the stream.
const (
	leaderTries = 20
	leaderPause = 250 * time.Millisecond
)

// awaitLeader calls check until the streams are complete, but at most leaderTries times.
func awaitLeader(ctx context.Context, check func() (incomplete bool, err error)) error {
	for try := 1; ; try++ {
		incomplete, err := check()
		if err != nil || !incomplete || try == leaderTries {
			return err
		}
		if err := pause.For(ctx, leaderPause); err != nil {
			return err
		}
	}
}
