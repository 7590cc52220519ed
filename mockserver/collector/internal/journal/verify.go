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
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

var _ journal.Verifier = (*Journal)(nil)

// A verifier counts anew, in its own way: it follows every part of every message
// until it has ended.
type verifier struct {
	journal *Journal
	now     *verified
	calls   uint64 // up to where CALLS was read
	books   map[string]*verifiedBook
	looks   int // how often it may still wait for what is on its way
}

// A verified is what is to be proved: what the account said when the count began.
type verified struct {
	calls, outcomes uint64
	ledgers         []tracking.Ledger
	tried           map[string]triedTo
	losses          *account // knows which messages a power cut took, and nothing else
}

// A triedTo is up to where every message of CALLS has had its first attempt at a
// destination: as the account has it, and as was acknowledged to the server, which
// hands out what is beyond.
type triedTo struct{ floor, acknowledged uint64 }

const (
	// What is on its way is looked for so often, with a pause between.
	looks     = 100
	lookPause = 50 * time.Millisecond
	// callsAtOnce and outcomesAtOnce are how many messages may wait to be read: the
	// ids in one of CALLS take up to 48 KB, and one of OUTCOMES up to 256 KB.
	callsAtOnce    = 256
	outcomesAtOnce = 64
)

type verifiedBook struct {
	journal.Verification
	attached uint64
	sources  []string
	untried  untried
	waiting  map[uint64]waitingPart // by the number of callsRef
}

// A waitingPart is what is left of a part and waits for another attempt, or a
// replay that waits for its first. It is small, since there may be many.
type waitingPart struct {
	accepted int64 // milliseconds; when the oldest of the calls was
	attempt  int32
	calls    uint16
	stored   bool // it is among the retries
}

// Verify reads all that is stored and proves or refutes, for every destination,
// that accepted = delivered + failed + filtered + pending + lost, that none of them
// is negative, and that the ledger says the same. Calls may be accepted and delivered meanwhile. It takes a few
// seconds for a million stored messages, and for each destination 12 bytes of memory
// for a message that was not tried and about 50 for what waits for a retry.
func (j *Journal) Verify(ctx context.Context) ([]journal.Verification, error) {
	if err := j.open(); err != nil {
		return nil, err
	}
	j.trimming.Lock() // what is read must stay
	defer j.trimming.Unlock()
	var all []journal.Verification
	err := j.patiently(ctx, func(ctx context.Context) (err error) {
		all, err = (&verifier{journal: j, looks: looks}).verify(ctx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("journal: verifying: %w", err)
	}
	return all, nil
}

func (v *verifier) verify(ctx context.Context) ([]journal.Verification, error) {
	base, _, err := v.journal.loadBase(ctx)
	if err != nil {
		return nil, err
	}
	v.calls, v.books = base.calls, map[string]*verifiedBook{}
	for name, b := range base.books {
		v.books[name] = b.verified()
	}
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

func newVerifiedBook(l tracking.Ledger, attached uint64, sources []string) *verifiedBook {
	return &verifiedBook{
		Verification: journal.Verification{Ledger: l}, attached: attached, sources: sources,
		waiting: map[uint64]waitingPart{},
	}
}

// verified returns the book to begin with. What was lost is the sum of its records.
func (b *book) verified() *verifiedBook {
	v := newVerifiedBook(b.ledger, b.attached, b.scopes[len(b.scopes)-1].sources)
	v.Lost, v.Losses = 0, slices.Clone(b.losses)
	for _, l := range b.losses {
		v.Lost += l.Calls
	}
	for ref, r := range b.retries {
		v.waiting[ref.number()] = waitingPart{accepted: r.accepted, attempt: int32(r.attempt), calls: uint16(r.calls)}
	}
	return v
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

// addOpen adds the parts of a message whose first attempt had not ended.
func (b *verifiedBook) addOpen(before *book, m *callsMessage) {
	if !before.isOpen(m) {
		return
	}
	b.untried.add(m.seq, m.calls, m.at)
	for part := range parts(m.calls) {
		if ref := (callsRef{m.seq, part}); before.ended(ref) {
			b.untried.end(ref)
		}
	}
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
	a, enough := j.account, max(calls.State.LastSeq, j.acked.Load())
	if err := a.await(ctx, func() bool { return a.calls >= enough && a.outcomes >= outcomes.State.LastSeq }); err != nil {
		return nil, err
	}
	return a.verified(acknowledged), nil
}

// verified returns what the account says now.
func (a *account) verified(acknowledged map[string]uint64) *verified {
	a.mu.Lock()
	defer a.mu.Unlock()
	ledgers, _ := a.ledgersNow()
	v := &verified{calls: a.calls, outcomes: a.outcomes, ledgers: ledgers, tried: map[string]triedTo{}, losses: newAccount()}
	v.losses.lost, v.losses.gone = slices.Clone(a.lost), slices.Clone(a.gone)
	for name, b := range a.books {
		v.tried[name] = triedTo{b.floor, acknowledged[name]}
	}
	return v
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

func (v *verifier) accept(m *callsMessage) {
	switch b := v.books[m.name]; {
	case m.kind == kindCalls:
		for _, b := range v.books {
			if len(b.sources) == 0 || slices.Contains(b.sources, m.name) {
				b.Accepted += int64(m.calls)
				b.untried.add(m.seq, m.calls, m.at)
			}
		}
	case m.kind == kindDetach:
		delete(v.books, m.name)
	case m.kind == kindAttach && b == nil:
		v.books[m.name] = newVerifiedBook(tracking.Ledger{Destination: m.name}, m.seq, m.sources)
	case m.kind == kindAttach:
		b.sources = m.sources
	case m.kind == kindReplay && b != nil:
		journal.Move(&b.Verification.Ledger, m.calls, m.from, tracking.StatePending)
		b.Pending -= int64(m.calls) // counted by looking
		b.waiting[callsRef{seq: m.seq}.number()] = waitingPart{accepted: m.oldest.UnixMilli(), attempt: 1, calls: uint16(m.calls)}
	}
}

// count takes in an outcome. One of an attempt that has ended before is a
// repetition.
func (v *verifier) count(o *outcome) {
	b := v.books[o.destination]
	if b == nil || b.attached != o.attached {
		return // detached since
	}
	calls, ok := b.end(o)
	if !ok {
		return
	}
	if calls != o.calls() {
		b.problem("message %d of CALLS, part %d, attempt %d: the outcome is about %d calls, but %d were to be tried",
			o.ref.seq, o.ref.part, o.attempt, o.calls(), calls)
	}
	b.Delivered += int64(o.delivered)
	b.Filtered += int64(o.filtered)
	b.Failed += int64(len(o.failed))
	if len(o.again) > 0 {
		b.waiting[o.ref.number()] = waitingPart{accepted: o.accepted.UnixMilli(), attempt: int32(o.attempt + 1), calls: uint16(len(o.again))}
	}
}

// end takes out the part that an outcome is about, and tells how many of its calls
// were to be tried. It is not ok if the attempt was another than the next.
func (b *verifiedBook) end(o *outcome) (calls int, ok bool) {
	number := o.ref.number()
	if w, waits := b.waiting[number]; waits {
		if int(w.attempt) != o.attempt {
			return 0, false
		}
		delete(b.waiting, number)
		return int(w.calls), true
	}
	if o.attempt != 1 {
		return 0, false
	}
	return b.untried.end(o.ref)
}

func (b *verifiedBook) problem(format string, args ...any) {
	const most = 100
	if len(b.Problems) < most {
		b.Problems = append(b.Problems, fmt.Sprintf(format, args...))
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

func (b *verifiedBook) isPending(calls int, at time.Time) {
	b.Pending += int64(calls)
	if b.OldestPending.IsZero() || at.Before(b.OldestPending) {
		b.OldestPending = at
	}
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

// compare holds what was counted against the ledger as it was when the count
// began.
func (v *verifier) compare() []journal.Verification {
	var all []journal.Verification
	for _, l := range v.now.ledgers {
		b := v.books[l.Destination]
		if b == nil {
			all = append(all, journal.Verification{Ledger: l, Problems: []string{"the streams know nothing of this destination"}})
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

func sum(l tracking.Ledger) string {
	return fmt.Sprintf("%d = %d delivered + %d failed + %d filtered + %d pending + %d lost", l.Accepted, l.Delivered, l.Failed, l.Filtered, l.Pending, l.Lost)
}
