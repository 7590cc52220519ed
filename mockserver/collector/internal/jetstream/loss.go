package jetstream

import (
	"context"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Where loss is accepted, it is found out exactly what was lost: the account knows
// from the newest checkpoint what was pending, and of that is lost what is no longer
// stored. What was stored after the checkpoint is read as far as it is there. The
// account that comes of it, with the loss in it, becomes the one that all later
// counts begin with.

// acceptLoss goes on with what is left.
func (j *Journal) acceptLoss(ctx context.Context, s stock) error {
	if err := j.useUp(ctx, s.calls.last+1, s.beyond); err != nil {
		return err
	}
	a := s.newest
	known := a.calls
	if err := j.readOn(ctx, a, max(s.calls.last, s.beyond)); err != nil {
		return err
	}
	accepted := a.acceptGone(j.accepted, s.calls, known)
	unknown := func(seq uint64) bool { return seq > known && !s.calls.has(seq) && !accepted[seq] }
	if err := j.readOnOutcomes(ctx, a, s.outcomes, unknown); err != nil {
		return err
	}
	stored, err := j.storedUntried(ctx, a, s.calls)
	if err != nil {
		return err
	}
	cause := strings.Join(j.causes, "; ")
	if most := 1 << 10; len(cause) > most {
		cause = strings.ToValidUTF8(cause[:most], "") + " …"
	}
	for name, b := range a.books {
		lost := b.dropGone(s.calls, s.outcomes, stored[name])
		if lost == 0 {
			continue
		}
		b.lose(lost, time.Now().Truncate(time.Millisecond), cause)
		j.log.Error("pending calls were lost with what is damaged; the journal goes on without them", "destination", name, "calls", lost)
	}
	j.log.Warn("the damage is accepted; what it did not touch goes on", "damage", cause)
	a.calls, a.outcomes, a.purged = max(s.calls.last, s.beyond), s.outcomes.last, s.base.purged
	a.lost, a.gone, a.lowAfter = append(a.lost, s.calls.holes...), append(a.gone, s.outcomes.holes...), 0
	if known := s.beyond; known > s.calls.last {
		a.lost = append(a.lost, span{s.calls.last + 1, known})
	}
	if err := j.storeBase(ctx, a, s.stored); err != nil {
		return err
	}
	j.account = a
	if err := j.retry.Purge(ctx); err != nil { // what it says of outcomes may no longer hold; it is made again
		return err
	}
	return j.forgetCheckpoints(ctx)
}

// readOn has an account read what CALLS has behind it.
func (j *Journal) readOn(ctx context.Context, a *account, last uint64) error {
	if a.calls >= last {
		return nil
	}
	t := j.tail(streamCalls, a.calls+1, func(m *nats.Msg, seq uint64) error {
		parsed, err := j.names.parseCalls(seq, m.Subject, m.Header)
		if err == nil {
			a.readCalls(parsed)
		}
		if err == nil && seq >= last {
			err = errEnough
		}
		return err
	})
	t.headersOnly = true
	return t.scan(ctx)
}

// readOnOutcomes has an account count the outcomes behind it. Those about messages
// of which nothing is known say that there were such calls.
func (j *Journal) readOnOutcomes(ctx context.Context, a *account, outcomes extent, unknown func(seq uint64) bool) error {
	a.lowAfter = outcomes.last // an outcome that is gone may have been about a message below
	t := j.tail(streamOutcomes, a.outcomes+1, func(m *nats.Msg, seq uint64) error {
		_, decoded, err := decodeOutcomes(m.Data)
		for i := range decoded {
			o := &decoded[i]
			b := a.books[o.destination]
			if b == nil || b.attached != o.attached {
				continue
			}
			if o.attempt == 1 && unknown(o.ref.seq) && !b.ended(o.ref) {
				b.ledger.Accepted += int64(o.calls())
				b.fresh += int64(o.calls())
			}
			b.count(o, seq)
		}
		return err
	})
	return t.scan(ctx)
}

// storedUntried counts, for each destination, the calls that are stored and whose
// first attempt has not ended.
func (j *Journal) storedUntried(ctx context.Context, a *account, calls extent) (map[string]int64, error) {
	stored := map[string]int64{}
	first := calls.last + 1
	for _, b := range a.books {
		if b.fresh > 0 {
			first = min(first, b.floor+1)
		}
	}
	if first > calls.last {
		return stored, nil
	}
	t := j.tail(streamCalls, first, func(m *nats.Msg, seq uint64) error {
		parsed, err := j.names.parseCalls(seq, m.Subject, m.Header)
		if err != nil || parsed.kind != kindCalls {
			return err
		}
		for name, b := range a.books {
			if !b.takes(seq, parsed.name) {
				continue
			}
			for part := range parts(parsed.calls) {
				if !b.ended(callsRef{seq, part}) {
					stored[name] += int64(partSize(parsed.calls, part))
				}
			}
		}
		return nil
	})
	t.headersOnly = true
	return stored, t.scan(ctx)
}

// dropUnfailed removes from FAILED the calls that the account does not count as
// failed: the outcome that said so is gone, and they are pending still. Without a
// loss it can only be of what was stored last.
func (j *Journal) dropUnfailed(ctx context.Context) error {
	info, err := j.failed.Info(ctx)
	if err != nil || info.State.Msgs == 0 {
		return err
	}
	since := info.State.LastTime.Add(-unsettled)
	if len(j.causes) > 0 {
		since = time.Unix(0, 0)
	}
	var unfailed []uint64
	t := j.tail(streamFailed, 0, func(m *nats.Msg, seq uint64) error {
		f, err := parseFailed(seq, m)
		if err != nil {
			return err
		}
		_, rest := j.names.kind(m.Subject)
		tok, _, _ := strings.Cut(rest, ".")
		destination, err := untoken(tok)
		if err != nil {
			return err
		}
		j.account.with(destination, func(b *book) {
			if ref := refOf(f.ref.Number); !b.tried(ref, f.ref.Attempt) {
				unfailed = append(unfailed, seq)
			}
		})
		return nil
	})
	t.since, t.subjects, t.headersOnly = since, []string{j.names.subject("f", "*", "*")}, true
	if err := t.scan(ctx); err != nil {
		return err
	}
	for _, seq := range unfailed {
		if err := j.failed.DeleteMsg(ctx, seq); err != nil {
			return err
		}
	}
	return nil
}
