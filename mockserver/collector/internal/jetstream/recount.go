package jetstream

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
)

// A recount counts anew, in its own way: it follows every part of every message until
// it has ended.
type recount struct {
	now   *verified
	calls uint64 // up to where CALLS was read
	books map[string]*verifiedBook
}

// newRecount begins with the account of what was removed.
func newRecount(base *account) *recount {
	r := &recount{calls: base.calls, books: map[string]*verifiedBook{}}
	for name, b := range base.books {
		r.books[name] = b.verified()
	}
	return r
}

// A verified is what is to be proved: what the account said when the count began.
type verified struct {
	calls, outcomes uint64
	ledgers         []mockserver.Ledger
	tried           map[string]triedTo
	losses          *account // knows which messages a power cut took, and nothing else
}

// A triedTo is up to where every message of CALLS has had its first attempt at a
// destination: as the account has it, and as was acknowledged to the server, which
// hands out what is beyond.
type triedTo struct{ floor, acknowledged uint64 }

type verifiedBook struct {
	mockserver.Verification
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

func newVerifiedBook(l mockserver.Ledger, attached uint64, sources []string) *verifiedBook {
	return &verifiedBook{
		Verification: mockserver.Verification{Ledger: l}, attached: attached, sources: sources,
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

func (v *recount) accept(m *callsMessage) {
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
		v.books[m.name] = newVerifiedBook(mockserver.Ledger{Destination: m.name}, m.seq, m.sources)
	case m.kind == kindAttach:
		b.sources = m.sources
	case m.kind == kindReplay && b != nil:
		b.Move(m.calls, m.from, mockserver.StatePending)
		b.Pending -= int64(m.calls) // counted by looking
		b.waiting[callsRef{seq: m.seq}.number()] = waitingPart{accepted: m.oldest.UnixMilli(), attempt: 1, calls: uint16(m.calls)}
	}
}

// count takes in an outcome. One of an attempt that has ended before is a
// repetition.
func (v *recount) count(o *outcome) {
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

func (b *verifiedBook) isPending(calls int, at time.Time) {
	b.Pending += int64(calls)
	if b.OldestPending.IsZero() || at.Before(b.OldestPending) {
		b.OldestPending = at
	}
}

// compare holds what was counted against the ledger as it was when the count
// began.
func (v *recount) compare() []mockserver.Verification {
	var all []mockserver.Verification
	for _, l := range v.now.ledgers {
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
	return fmt.Sprintf("%d = %d delivered + %d failed + %d filtered + %d pending + %d lost", l.Accepted, l.Delivered, l.Failed, l.Filtered, l.Pending, l.Lost)
}
