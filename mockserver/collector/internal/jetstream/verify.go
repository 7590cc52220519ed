package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
)

var _ mockserver.Verifier = (*Journal)(nil)

// A verifier holds the ledger against a count of all that is stored.
type verifier struct {
	*recount
	journal *Journal
	looks   int // how often it may still wait for what is on its way
}

const (
	// What is on its way is looked for so often, with a pause between.
	looks     = 100
	lookPause = 50 * time.Millisecond
	// callsAtOnce and outcomesAtOnce are how many messages may wait to be read: the
	// ids in one of CALLS take up to 48 KB, and one of OUTCOMES up to 256 KB.
	callsAtOnce    = 256
	outcomesAtOnce = 64
)

// Verify reads all that is stored and proves or refutes, for every destination,
// that accepted = delivered + failed + filtered + pending + lost, that none of them
// is negative, and that the ledger says the same. Calls may be accepted and delivered meanwhile. It takes a few
// seconds for a million stored messages, and for each destination 12 bytes of memory
// for a message that was not tried and about 50 for what waits for a retry.
func (j *Journal) Verify(ctx context.Context) ([]mockserver.Verification, error) {
	if err := j.open(); err != nil {
		return nil, err
	}
	j.trimming.Lock() // what is read must stay
	defer j.trimming.Unlock()
	var all []mockserver.Verification
	err := j.patiently(ctx, func(ctx context.Context) (err error) {
		all, err = (&verifier{journal: j, looks: looks}).verify(ctx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("journal: verifying: %w", err)
	}
	return all, nil
}

func (v *verifier) verify(ctx context.Context) ([]mockserver.Verification, error) {
	base, _, err := v.journal.loadBase(ctx)
	if err != nil {
		return nil, err
	}
	v.recount = newRecount(base)
	if v.now, err = v.journal.toVerify(ctx); err != nil {
		return nil, err
	}
	if err := v.readPending(ctx, base); err != nil {
		return nil, err
	}
	if err := v.read(ctx, base.outcomes); err != nil {
		return nil, err
	}
	if err := v.checkPending(ctx); err != nil {
		return nil, err
	}
	return v.compare(), nil
}

// readPending counts what had not ended when a loss was accepted: the count begins
// there, and what is stored says what it is.
func (v *verifier) readPending(ctx context.Context, base *account) error {
	first := base.calls + 1
	for _, b := range base.books {
		if b.fresh > 0 {
			first = min(first, b.floor+1)
		}
	}
	if first > base.calls {
		return nil
	}
	t := v.journal.tail(streamCalls, first, func(m *nats.Msg, seq uint64) error {
		if seq > base.calls {
			return errEnough
		}
		parsed, err := v.journal.names.parseCalls(seq, m.Subject, m.Header)
		if err != nil || parsed.kind != kindCalls {
			return err
		}
		for name, b := range base.books {
			v.books[name].addOpen(b, parsed)
		}
		return nil
	})
	t.headersOnly, t.batch, t.whole = true, callsAtOnce, v.now.losses.isKnownLoss
	return t.scan(ctx)
}

// toVerify returns what the account says now. What a consumer takes for acknowledged
// is asked first: each of its messages must then have outcomes that the account has
// read.
func (j *Journal) toVerify(ctx context.Context) (*verified, error) {
	acknowledged := map[string]uint64{}
	for _, name := range j.account.names() {
		floor, err := j.ackFloor(ctx, name)
		if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) { // it is made when the destination is attached
			return nil, err
		}
		acknowledged[name] = floor
	}
	calls, err := j.calls.Info(ctx) // another process may have stored more than this one has read
	if err != nil {
		return nil, err
	}
	outcomes, err := j.outcomes.Info(ctx)
	if err != nil {
		return nil, err
	}
	if err := j.account.reachedBoth(ctx, max(calls.State.LastSeq, j.acked.Load()), outcomes.State.LastSeq); err != nil {
		return nil, err
	}
	return j.account.verified(acknowledged), nil
}

// read goes through OUTCOMES, and through CALLS as far ahead as each outcome
// needs it.
func (v *verifier) read(ctx context.Context, outcomes uint64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	calls := make(chan *callsMessage, 64)
	failed := make(chan error, 1)
	go func() { failed <- v.readCalls(ctx, v.calls, calls) }()
	t := v.journal.tail(streamOutcomes, outcomes+1, func(m *nats.Msg, seq uint64) error {
		if seq > v.now.outcomes {
			return errEnough
		}
		_, decoded, err := decodeOutcomes(m.Data)
		if err != nil {
			return err
		}
		for i := range decoded {
			v.advance(calls, decoded[i].ref.seq)
			v.count(&decoded[i])
		}
		return nil
	})
	t.batch, t.whole, t.must = outcomesAtOnce, v.now.losses.isGone, v.now.outcomes
	if err := t.scan(ctx); err != nil {
		return err
	}
	v.advance(calls, v.now.calls)
	return <-failed
}

// readCalls sends the messages of CALLS that follow one, and then closes the channel.
func (v *verifier) readCalls(ctx context.Context, after uint64, calls chan<- *callsMessage) error {
	defer close(calls)
	t := v.journal.tail(streamCalls, after+1, func(m *nats.Msg, seq uint64) error {
		if seq > v.now.calls {
			return errEnough
		}
		parsed, err := v.journal.names.parseCalls(seq, m.Subject, m.Header)
		if err != nil {
			return err
		}
		parsed.ids = "" // they may go
		select {
		case calls <- parsed:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	t.headersOnly, t.batch, t.whole, t.must = true, callsAtOnce, v.now.losses.isKnownLoss, v.now.calls
	return t.scan(ctx)
}

// advance takes in messages of CALLS up to one.
func (v *verifier) advance(calls <-chan *callsMessage, to uint64) {
	for v.calls < to {
		m, ok := <-calls
		if !ok {
			v.calls = to
			return
		}
		v.calls = m.seq
		v.accept(m)
	}
}

// checkPending looks whether what has not ended will be handed out.
func (v *verifier) checkPending(ctx context.Context) error {
	if err := v.findStored(ctx); err != nil {
		return err
	}
	for name, b := range v.books {
		if err := v.checkUntried(ctx, name, b); err != nil {
			return err
		}
		if err := v.checkWaiting(ctx, name, b); err != nil {
			return err
		}
	}
	return nil
}

// checkUntried looks whether what was never tried is yet to be handed out.
func (v *verifier) checkUntried(ctx context.Context, name string, b *verifiedBook) (err error) {
	to := v.now.tried[name]
	b.untried.all(func(ref callsRef, calls int, at time.Time) bool {
		if ref.seq <= to.floor {
			b.problem("message %d of CALLS, part %d: it was never tried, but the ledger takes all up to message %d for tried", ref.seq, ref.part, to.floor)
			return true
		}
		if ref.seq <= to.acknowledged {
			var ended bool
			if ended, err = v.firstEnded(ctx, name, ref); err != nil {
				return false
			}
			if !ended {
				b.problem("message %d of CALLS, part %d: it was never tried, but what is handed out begins after message %d", ref.seq, ref.part, to.acknowledged)
				return true
			}
		}
		b.isPending(calls, at)
		return true
	})
	return err
}

// checkWaiting looks whether what waits for another attempt is among the retries.
func (v *verifier) checkWaiting(ctx context.Context, name string, b *verifiedBook) error {
	for number, w := range b.waiting {
		if ref := refOf(number); !w.stored {
			ended, err := v.endedMeanwhile(ctx, name, ref, int(w.attempt))
			if err != nil {
				return err
			}
			if !ended {
				b.problem("message %d of CALLS, part %d: attempt %d is due, but it is not among the retries", ref.seq, ref.part, w.attempt)
				continue
			}
		}
		b.isPending(int(w.calls), time.UnixMilli(w.accepted))
	}
	return nil
}

// findStored marks what is among the retries.
func (v *verifier) findStored(ctx context.Context) error {
	byToken := map[string]*verifiedBook{}
	for name, b := range v.books {
		if len(b.waiting) > 0 {
			byToken[token(name)] = b
		}
	}
	if len(byToken) == 0 {
		return nil
	}
	return v.journal.eachStoredRetry(ctx, func(destination, number string) {
		b := byToken[destination]
		n, err := strconv.ParseUint(number, 10, 64)
		if b == nil || err != nil {
			return
		}
		if w, ok := b.waiting[n]; ok {
			w.stored = true
			b.waiting[n] = w
		}
	})
}

// firstEnded tells whether the first attempt has ended after all. If it was another
// process that ended it, this one may not have read of it yet.
func (v *verifier) firstEnded(ctx context.Context, name string, ref callsRef) (bool, error) {
	return v.eventually(ctx, func() (ended bool, err error) {
		ended = true
		v.journal.account.with(name, func(b *book) { ended = b.ended(ref) })
		return ended, nil
	})
}

// endedMeanwhile tells whether a retry ended after the count began, or is
// stored now: it may be on its way from its schedule, or from this process.
func (v *verifier) endedMeanwhile(ctx context.Context, name string, ref callsRef, attempt int) (bool, error) {
	j := v.journal
	return v.eventually(ctx, func() (bool, error) {
		ended := true
		j.account.with(name, func(b *book) {
			r, ok := b.retries[ref]
			ended = !ok || r.attempt != attempt
		})
		if ended {
			return true, nil
		}
		return j.isStored(ctx, name, ref)
	})
}

// eventually tells whether something holds, or does soon. What does not hold for
// one part may not for many: only the first of them are waited for.
func (v *verifier) eventually(ctx context.Context, holds func() (bool, error)) (bool, error) {
	for {
		ok, err := holds()
		if ok || err != nil || v.looks == 0 {
			return ok, err
		}
		v.looks--
		if err := sleep(ctx, lookPause); err != nil {
			return false, err
		}
	}
}
