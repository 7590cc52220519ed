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

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
)

// A comparison is the difference between the streams and the stored ledgers.
type comparison struct {
	calls, outcomes ledger.Extent
	base            *ledger.Ledger // see loadBase
	stored          uint64         // sequence number of the base in STATE, or 0
	newest          *ledger.Ledger // newest stored ledger; base if there is no other
	beyond          uint64         // sequence number of the last message of CALLS that any record refers to
	missing         []string       // descriptions of missing data
	lost            error          // error that contains missing, or nil
	onlyRecent      bool           // whether all missing data is newer than the newest checkpoint
}

// findLoss compares the streams with the stored ledgers and records which data is missing.
func (j *Journal) findLoss(s *comparison, checkpoints []*ledger.Ledger) {
	stored := append(slices.Clip(checkpoints), s.base)
	unknown := func(holes []record.Span, known func(*ledger.Ledger, record.Span) bool) []record.Span {
		return slices.DeleteFunc(slices.Clone(holes), func(hole record.Span) bool {
			return slices.ContainsFunc(stored, func(a *ledger.Ledger) bool { return known(a, hole) })
		})
	}
	missing := func(format string, args ...any) { s.missing = append(s.missing, fmt.Sprintf(format, args...)) }
	if holes := unknown(s.calls.Holes, (*ledger.Ledger).IsLostCall); len(holes) > 0 {
		s.onlyRecent = s.onlyRecent && holes[0].First > s.newest.Calls
		missing("CALLS has lost messages %v of %d to %d", holes, s.calls.First, s.calls.Last)
	}
	if holes := unknown(s.outcomes.Holes, (*ledger.Ledger).IsLostOutcome); len(holes) > 0 {
		s.onlyRecent = s.onlyRecent && holes[0].First > s.newest.Outcomes
		missing("OUTCOMES has lost messages %v of %d to %d", holes, s.outcomes.First, s.outcomes.Last)
	}
	var calls, outcomes uint64
	for _, a := range stored {
		calls, outcomes = max(calls, a.Calls), max(outcomes, a.Outcomes)
	}
	if calls > s.calls.Last || outcomes > s.outcomes.Last {
		s.onlyRecent = false
		missing("CALLS ends at message %d and OUTCOMES at %d, but %d and %d were stored", s.calls.Last, s.outcomes.Last, calls, outcomes)
	}
	if s.beyond > s.calls.Last && s.beyond > s.newest.Calls {
		missing("CALLS ends at message %d, but message %d was acknowledged", s.calls.Last, s.beyond)
	}
	if len(s.missing) > 0 {
		s.lost = record.Damaged("%s. %s", strings.Join(s.missing, "; "), j.options.repairHint())
	}
}

// acceptLoss counts the lost calls and continues with the remaining data. The newest ledger contains
// the calls that were pending. acceptLoss adds the newer messages that are still stored, and counts the
// pending calls that are no longer stored as lost. The resulting ledger becomes the new base.
func (j *Journal) acceptLoss(ctx context.Context, s comparison) error {
	j.previous.causes = append(j.previous.causes, s.missing...)
	a := s.newest
	salvage := a.Salvage(s.calls, s.outcomes)
	err := j.scanCalls(ctx, a.Calls+1, s.calls.Last, a.ReadCalls)
	if err != nil {
		return err
	}
	salvage.ReadNoted(j.previous.accepted)
	err = j.TailOutcomes(a.Outcomes+1, func(m *record.Outcomes) error {
		for i := range m.All {
			salvage.ReadOutcome(&m.All[i], m.Seq)
		}
		return nil
	}).Scan(ctx)
	if err == nil {
		err = j.scanCalls(ctx, salvage.First(), s.calls.Last, salvage.FindStored)
	}
	if err != nil {
		return err
	}
	cause := strings.Join(j.previous.causes, "; ")
	if most := 1 << 10; len(cause) > most {
		cause = strings.ToValidUTF8(cause[:most], "") + " …"
	}
	for name, lost := range salvage.End(s.beyond, time.Now().Truncate(time.Millisecond), cause) {
		j.Log.Error("pending calls were lost with the damaged data; the journal continues without them", "destination", name, "calls", lost)
	}
	j.Log.Warn("accepted the damage; the journal continues with the remaining data", "damage", cause)
	a.Purged = s.base.Purged
	if err := j.rewindConsumers(ctx, a); err != nil {
		return err
	}
	if err := j.storeBase(ctx, a, s.stored); err != nil {
		return err
	}
	if err := j.storePlaceholders(ctx, s.calls.Last+1, s.beyond); err != nil { // the next start repeats an interrupted call
		return err
	}
	j.ledger = ledger.NewLive(a)
	if err := j.JS.Purge(ctx, j.Names.Stream(record.StreamRetry), "", 0); err != nil { // retries may refer to lost outcomes; RETRY is rebuilt later
		return err
	}
	return j.removeCheckpoints(ctx)
}

// rewindConsumers deletes the consumers of CALLS on a cluster, because they may have delivered calls
// with lost outcomes. New consumers start after the floors of their destinations.
func (j *Journal) rewindConsumers(ctx context.Context, a *ledger.Ledger) error {
	if !j.Shared {
		return nil
	}
	for name := range a.Accounts {
		err := j.JS.DeleteConsumer(ctx, j.Names.Stream(record.StreamCalls), j.Names.Consumer(name))
		if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
			return fmt.Errorf("journal: %w", err)
		}
	}
	return nil
}

func (j *Journal) scanCalls(ctx context.Context, first, last uint64, read func(*record.Calls)) error {
	t := j.TailCalls(first, func(parsed *record.Calls) error {
		read(parsed)
		return nil
	})
	t.Last = last
	return t.Scan(ctx)
}

// storePlaceholders stores placeholders for messages that were lost at the end of CALLS. The sequence
// numbers of these messages must not be reused, because old outcomes would match new calls.
func (j *Journal) storePlaceholders(ctx context.Context, first, last uint64) error {
	if last < first {
		return nil
	}
	j.Log.Error("messages were lost at the end of CALLS; their numbers are not reused", "messages", last-first+1)
	for seq := first; seq <= last; {
		m := nats.NewMsg(j.Names.Subject(record.KindLost))
		m.Header.Set(record.HeaderControl, record.Control{First: first, Last: last}.Header())
		stored, err := j.Publish(ctx, m)
		if err != nil {
			return err
		}
		if stored < seq {
			return errors.New("journal: CALLS has assigned a lower sequence number than before")
		}
		seq = stored + 1
	}
	return nil
}
