package journal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
)

var _ mockserver.Verifier = (*Journal)(nil)

// A verifier counts anew, in its own way: it follows every part of every message
// until it has ended.
type verifier struct {
	journal *Journal
	calls   uint64 // up to where CALLS was read
	books   map[string]*verifiedBook
	lost    *account // knows which messages a power cut took
	looks   int      // how often it may still wait for what is on its way
}

// What is on its way is looked for so often, with a pause between.
const (
	looks     = 100
	lookPause = 50 * time.Millisecond
)

type verifiedBook struct {
	mockserver.Verification
	attached uint64
	sources  []string
	open     map[callsRef]openPart
}

// An openPart has not ended.
type openPart struct {
	calls   int
	attempt int
	at      time.Time
}

// Verify reads all that is stored and proves or refutes, for every destination,
// that accepted = delivered + failed + filtered + pending, and that the ledger
// says the same. Calls may be accepted and delivered meanwhile. It takes about a
// second for a million stored calls.
func (j *Journal) Verify(ctx context.Context) ([]mockserver.Verification, error) {
	if err := j.open(); err != nil {
		return nil, err
	}
	j.trimming.Lock() // what is read must stay
	defer j.trimming.Unlock()
	if err := j.account.reached(ctx, j.acked.Load()); err != nil {
		return nil, err
	}
	now, err := decodeAccount(j.account.encode())
	if err != nil {
		return nil, err
	}
	base, _, err := j.loadBase(ctx)
	if err != nil {
		return nil, err
	}
	v := &verifier{journal: j, calls: base.calls, books: map[string]*verifiedBook{}, lost: now, looks: looks}
	for name, b := range base.books {
		v.books[name] = &verifiedBook{
			Verification: mockserver.Verification{Ledger: b.ledger}, attached: b.attached,
			sources: b.scopes[len(b.scopes)-1].sources, open: map[callsRef]openPart{},
		}
	}
	if err := v.read(ctx, base.outcomes, now); err != nil {
		return nil, fmt.Errorf("journal: verifying: %w", err)
	}
	if err := v.checkPending(ctx, now); err != nil {
		return nil, fmt.Errorf("journal: verifying: %w", err)
	}
	return v.compare(now), nil
}

// read goes through OUTCOMES, and through CALLS as far ahead as each outcome
// needs it.
func (v *verifier) read(ctx context.Context, outcomes uint64, now *account) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	calls := make(chan *callsMessage, 256)
	failed := make(chan error, 1)
	go func() { failed <- v.readCalls(ctx, calls, now.calls) }()
	t := v.journal.tail(streamOutcomes, outcomes+1, func(m *nats.Msg, seq uint64) error {
		if seq > now.outcomes {
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
	t.whole, t.must = now.isGone, now.outcomes
	if err := t.scan(ctx); err != nil {
		return err
	}
	v.advance(calls, now.calls)
	if err := <-failed; err != nil {
		return err
	}
	return nil
}

// readCalls sends the messages of CALLS up to one, and then closes the channel.
func (v *verifier) readCalls(ctx context.Context, calls chan<- *callsMessage, to uint64) error {
	defer close(calls)
	t := v.journal.tail(streamCalls, v.calls+1, func(m *nats.Msg, seq uint64) error {
		if seq > to {
			return errEnough
		}
		parsed, err := v.journal.names.parseCalls(seq, m.Subject, m.Header)
		if err != nil {
			return err
		}
		select {
		case calls <- parsed:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	t.headersOnly, t.whole, t.must = true, v.lost.isKnownLoss, to
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

func (v *verifier) accept(m *callsMessage) {
	switch b := v.books[m.name]; {
	case m.kind == kindCalls:
		for _, b := range v.books {
			if len(b.sources) == 0 || slices.Contains(b.sources, m.name) {
				b.accept(m)
			}
		}
	case m.kind == kindDetach:
		delete(v.books, m.name)
	case m.kind == kindAttach && b == nil:
		v.books[m.name] = &verifiedBook{
			Verification: mockserver.Verification{Ledger: mockserver.Ledger{Destination: m.name}},
			attached:     m.seq, sources: m.sources, open: map[callsRef]openPart{},
		}
	case m.kind == kindAttach:
		b.sources = m.sources
	case m.kind == kindReplay && b != nil:
		b.Move(m.calls, m.from, mockserver.StatePending)
		b.Pending -= int64(m.calls) // counted by looking
		b.open[callsRef{seq: m.seq}] = openPart{m.calls, 1, m.oldest}
	}
}

func (b *verifiedBook) accept(m *callsMessage) {
	b.Accepted += int64(m.calls)
	for part := range parts(m.calls) {
		b.open[callsRef{m.seq, part}] = openPart{partSize(m.calls, part), 1, m.at}
	}
}

// count takes in an outcome. One of an attempt that has ended before is a
// repetition.
func (v *verifier) count(o *outcome) {
	b := v.books[o.destination]
	if b == nil || b.attached != o.attached {
		return // detached since
	}
	part, open := b.open[o.ref]
	if !open && o.attempt == 1 && v.lost.isLost(o.ref.seq) {
		b.Accepted += int64(o.calls())
		part, open = openPart{o.calls(), 1, o.accepted}, true
	}
	if !open || part.attempt != o.attempt {
		return
	}
	if part.calls != o.calls() {
		b.problem("message %d of CALLS, part %d, attempt %d: the outcome is about %d calls, but %d were to be tried",
			o.ref.seq, o.ref.part, o.attempt, o.calls(), part.calls)
	}
	b.Delivered += int64(o.delivered)
	b.Filtered += int64(o.filtered)
	b.Failed += int64(len(o.failed))
	delete(b.open, o.ref)
	if len(o.again) > 0 {
		b.open[o.ref] = openPart{len(o.again), o.attempt + 1, o.accepted}
	}
}

func (b *verifiedBook) problem(format string, args ...any) {
	const most = 100
	if len(b.Problems) < most {
		b.Problems = append(b.Problems, fmt.Sprintf(format, args...))
	}
}

// checkPending looks whether what has not ended will be handed out.
func (v *verifier) checkPending(ctx context.Context, now *account) error {
	stored, err := v.journal.storedRetries(ctx)
	if err != nil {
		return err
	}
	for name, b := range v.books {
		floor, err := v.handedOutAfter(ctx, name, now)
		if err != nil {
			return err
		}
		for ref, part := range b.open {
			switch {
			case part.attempt == 1 && !v.isReplay(now, name, ref):
				if ref.seq > floor {
					break
				}
				if ended, err := v.firstEnded(ctx, name, ref); err != nil {
					return err
				} else if !ended {
					b.problem("message %d of CALLS, part %d: it was never tried, but what is handed out begins after message %d", ref.seq, ref.part, floor)
					continue
				}
			case !stored[token(name)+"."+strconv.FormatUint(ref.number(), 10)]:
				if ended, err := v.endedMeanwhile(ctx, name, ref, part); err != nil {
					return err
				} else if !ended {
					b.problem("message %d of CALLS, part %d: attempt %d is due, but it is not among the retries", ref.seq, ref.part, part.attempt)
					continue
				}
			}
			b.Pending += int64(part.calls)
			if b.OldestPending.IsZero() || part.at.Before(b.OldestPending) {
				b.OldestPending = part.at
			}
		}
	}
	return nil
}

// handedOutAfter returns the message of CALLS after which the destination's
// consumer hands out what was not acknowledged.
func (v *verifier) handedOutAfter(ctx context.Context, name string, now *account) (uint64, error) {
	j := v.journal
	floor := uint64(0)
	if b := now.books[name]; b != nil {
		floor = b.floor
	}
	consumer, err := j.js.Consumer(ctx, j.names.stream(streamCalls), j.names.consumer(name))
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return floor, nil // it is made when the destination is attached
	}
	if err != nil {
		return 0, err
	}
	return max(floor, consumer.CachedInfo().AckFloor.Stream), nil
}

// firstEnded tells whether the first attempt ended after the count began. If it
// was another process that ended it, this one may not have read of it yet.
func (v *verifier) firstEnded(ctx context.Context, name string, ref callsRef) (bool, error) {
	return v.eventually(ctx, func() (ended bool, err error) {
		ended = true
		v.journal.account.with(name, func(b *book) { ended = b.ended(ref) })
		return ended, nil
	})
}

// isReplay tells whether a first attempt is one of a replay, which is handed out
// as a retry.
func (v *verifier) isReplay(now *account, name string, ref callsRef) bool {
	b := now.books[name]
	if b == nil {
		return false
	}
	_, ok := b.retries[ref]
	return ok
}

// endedMeanwhile tells whether a retry ended after the count began, or is
// stored now: it may be on its way from its schedule, or from this process.
func (v *verifier) endedMeanwhile(ctx context.Context, name string, ref callsRef, part openPart) (bool, error) {
	j := v.journal
	return v.eventually(ctx, func() (bool, error) {
		ended := true
		j.account.with(name, func(b *book) {
			r, ok := b.retries[ref]
			ended = !ok || r.attempt != part.attempt
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

// compare holds what was counted against the ledger as it was when the count
// began.
func (v *verifier) compare(now *account) []mockserver.Verification {
	var all []mockserver.Verification
	ledgers, _ := now.ledgers()
	for _, l := range ledgers {
		b := v.books[l.Destination]
		if b == nil {
			all = append(all, mockserver.Verification{Ledger: l, Problems: []string{"the streams know nothing of this destination"}})
			continue
		}
		l.OldestPending = b.OldestPending
		if l != b.Ledger {
			b.problem("the ledger says %s, and what is stored says %s", sum(l), sum(b.Ledger))
		}
		delete(v.books, l.Destination)
		all = append(all, b.Verification)
	}
	for _, name := range slices.Sorted(maps.Keys(v.books)) {
		b := v.books[name]
		b.problem("the ledger knows nothing of this destination")
		all = append(all, b.Verification)
	}
	return all
}

func sum(l mockserver.Ledger) string {
	return fmt.Sprintf("%d = %d delivered + %d failed + %d filtered + %d pending", l.Accepted, l.Delivered, l.Failed, l.Filtered, l.Pending)
}
