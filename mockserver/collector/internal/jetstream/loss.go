package jetstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
)

// A stock is what there is, and what it is compared with.
type stock struct {
	calls, outcomes ledger.Extent
	base            *ledger.Ledger // of what was removed
	stored          uint64         // the message of STATE that has it; 0 where there is none
	newest          *ledger.Ledger // the base, or a newer checkpoint
	beyond          uint64         // the last message of CALLS that something is known of
	lacking         []string       // in words
	lost            error          // all of that
	young           bool           // all of that is younger than the newest checkpoint
}

// findLoss compares what is there with what must be.
func (j *Journal) findLoss(s *stock, checkpoints []*ledger.Ledger) {
	stored := append(slices.Clip(checkpoints), s.base)
	unknown := func(holes []record.Span, known func(*ledger.Ledger, record.Span) bool) []record.Span {
		return slices.DeleteFunc(slices.Clone(holes), func(hole record.Span) bool {
			return slices.ContainsFunc(stored, func(a *ledger.Ledger) bool { return known(a, hole) })
		})
	}
	lack := func(format string, args ...any) { s.lacking = append(s.lacking, fmt.Sprintf(format, args...)) }
	if holes := unknown(s.calls.Holes, (*ledger.Ledger).IsKnownLoss); len(holes) > 0 {
		s.young = s.young && holes[0].First > s.newest.Calls
		lack("CALLS has lost messages %v of %d to %d", holes, s.calls.First, s.calls.Last)
	}
	if holes := unknown(s.outcomes.Holes, (*ledger.Ledger).IsGone); len(holes) > 0 {
		s.young = s.young && holes[0].First > s.newest.Outcomes
		lack("OUTCOMES has lost messages %v of %d to %d", holes, s.outcomes.First, s.outcomes.Last)
	}
	for _, a := range stored {
		if a.Calls > s.calls.Last || a.Outcomes > s.outcomes.Last {
			s.young = false
			lack("CALLS ends at message %d and OUTCOMES at %d, but %d and %d were stored", s.calls.Last, s.outcomes.Last, a.Calls, a.Outcomes)
			break
		}
	}
	if s.beyond > s.calls.Last && s.beyond > s.newest.Calls {
		lack("CALLS ends at message %d, but message %d was acknowledged", s.calls.Last, s.beyond)
	}
	if len(s.lacking) > 0 {
		s.lost = record.Damaged("%s. %s", strings.Join(s.lacking, "; "), j.options.howToGoOn())
	}
}

// Where loss is accepted, it is found out exactly what was lost: the account knows
// from the newest checkpoint what was pending, and of that is lost what is no longer
// stored. What was stored after the checkpoint is read as far as it is there. The
// account that comes of it, with the loss in it, becomes the one that all later
// counts begin with.

// AcceptLoss goes on with what is left.
func (j *Journal) acceptLoss(ctx context.Context, s stock) error {
	j.left.causes = append(j.left.causes, s.lacking...)
	a := s.newest
	a.Held = true // outcomes may be about messages that are not read, since they are gone
	known := a.Calls
	if err := j.readOn(ctx, a, s.calls.Last); err != nil {
		return err
	}
	accepted := a.AcceptGone(j.left.accepted, s.calls, known)
	unknown := func(seq uint64) bool { return seq > known && !s.calls.Has(seq) && !accepted[seq] }
	if err := j.readOnOutcomes(ctx, a, s.outcomes, unknown); err != nil {
		return err
	}
	stored, err := j.storedUndelivered(ctx, a, s.calls)
	if err != nil {
		return err
	}
	cause := strings.Join(j.left.causes, "; ")
	if most := 1 << 10; len(cause) > most {
		cause = strings.ToValidUTF8(cause[:most], "") + " …"
	}
	for name, b := range a.Accounts {
		lost := b.DropGone(s.calls, s.outcomes, stored[name])
		if lost == 0 {
			continue
		}
		b.Lose(lost, time.Now().Truncate(time.Millisecond), cause)
		j.Log.Error("pending calls were lost with what is damaged; the journal goes on without them", "destination", name, "calls", lost)
	}
	j.Log.Warn("the damage is accepted; what it did not touch goes on", "damage", cause)
	a.Calls, a.Outcomes, a.Purged = max(s.calls.Last, s.beyond), s.outcomes.Last, s.base.Purged
	a.Lost, a.Gone = append(a.Lost, s.calls.Holes...), append(a.Gone, s.outcomes.Holes...)
	if known := s.beyond; known > s.calls.Last {
		a.Lost = append(a.Lost, record.Span{First: s.calls.Last + 1, Last: known})
	}
	if err := j.storeBase(ctx, a, s.stored); err != nil {
		return err
	}
	if err := j.useUp(ctx, s.calls.Last+1, s.beyond); err != nil { // the next start does it where this one ends before
		return err
	}
	a.Held = false
	j.ledger = a
	if err := j.JS.Purge(ctx, j.Names.Stream(record.StreamRetry), "", 0); err != nil { // what it says of outcomes may no longer hold; it is made again
		return err
	}
	return j.forgetCheckpoints(ctx)
}

// readOn has an account read what CALLS has behind it.
func (j *Journal) readOn(ctx context.Context, a *ledger.Ledger, last uint64) error {
	if a.Calls >= last {
		return nil
	}
	t := j.TailCalls(a.Calls+1, func(parsed *record.Calls) error {
		a.ReadCalls(parsed)
		if parsed.Seq >= last {
			return store.ErrEnough
		}
		return nil
	})
	return t.Scan(ctx)
}

// readOnOutcomes has an account count the outcomes behind it. Those about messages
// of which nothing is known say that there were such calls.
func (j *Journal) readOnOutcomes(ctx context.Context, a *ledger.Ledger, outcomes ledger.Extent, unknown func(seq uint64) bool) error {
	t := j.TailOutcomes(a.Outcomes+1, func(seq uint64, _ record.WriteID, decoded []record.Outcome) error {
		for i := range decoded {
			a.CountKnowing(&decoded[i], seq, unknown)
		}
		return nil
	})
	return t.Scan(ctx)
}

// storedUndelivered counts, for each destination, the calls that are stored and whose
// first attempt has not ended.
func (j *Journal) storedUndelivered(ctx context.Context, a *ledger.Ledger, calls ledger.Extent) (map[string]int64, error) {
	stored := map[string]int64{}
	first := calls.Last + 1
	for _, b := range a.Accounts {
		if b.Fresh > 0 {
			first = min(first, b.Floor+1)
		}
	}
	if first > calls.Last {
		return stored, nil
	}
	t := j.TailCalls(first, func(parsed *record.Calls) error {
		if parsed.Kind != record.KindCalls {
			return nil
		}
		for name, b := range a.Accounts {
			if !b.Takes(parsed.Seq, parsed.Name) {
				continue
			}
			for part := range record.Parts(parsed.Calls) {
				if !b.Ended(record.Ref{Seq: parsed.Seq, Part: part}) {
					stored[name] += int64(record.PartSize(parsed.Calls, part))
				}
			}
		}
		return nil
	})
	return stored, t.Scan(ctx)
}

// useUp uses up the numbers of messages that were lost at the end of CALLS: what is
// stored about these must not be taken for what is stored about others.
func (j *Journal) useUp(ctx context.Context, first, last uint64) error {
	if last < first {
		return nil
	}
	j.Log.Error("messages were lost at the end of CALLS; their numbers are not used again", "messages", last-first+1)
	for seq := first; seq <= last; {
		m := nats.NewMsg(j.Names.Subject(record.KindLost))
		m.Header.Set(record.HeaderControl, record.Control{First: first, Last: last}.Header())
		stored, err := j.Publish(ctx, m)
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
