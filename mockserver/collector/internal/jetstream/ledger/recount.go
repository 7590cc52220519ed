package ledger

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A Recount counts anew, in its own way: it follows every part of every message until
// it has ended.
type Recount struct {
	Now      *Claim
	Calls    uint64 // up to where CALLS was read
	Accounts map[string]*Recounted
}

// NewRecount begins with the account of what was removed.
func NewRecount(base *Ledger, now *Claim) *Recount {
	r := &Recount{Now: now, Calls: base.Calls, Accounts: map[string]*Recounted{}}
	for name, b := range base.Accounts {
		r.Accounts[name] = b.verified()
	}
	return r
}

// A Claim is what is to be proved: what the account said when the count began.
type Claim struct {
	Calls, Outcomes uint64
	ledgers         []tracking.Ledger
	Tried           map[string]triedTo
	Losses          *Ledger // knows which messages a power cut took, and nothing else
}

// A triedTo is up to where every message of CALLS has had its first attempt at a
// destination: as the account has it, and as was acknowledged to the server, which
// hands out what is beyond.
type triedTo struct{ Floor, Acknowledged uint64 }

// A Recounted is one destination as it is counted anew.
type Recounted struct {
	journal.Verification
	attached    uint64
	sources     []string
	Undelivered undelivered
	Waiting     map[uint64]waitingPart // by the number of Ref
}

// A waitingPart is what is left of a part and waits for another attempt, or a
// replay that waits for its first. It is small, since there may be many.
type waitingPart struct {
	Accepted int64 // milliseconds; when the oldest of the calls was
	Attempt  int32
	Calls    uint16
	Stored   bool // it is among the retries, or parked: then it need not be
}

func newRecounted(l tracking.Ledger, attached uint64, sources []string) *Recounted {
	return &Recounted{
		Verification: journal.Verification{Ledger: l}, attached: attached, sources: sources,
		Waiting: map[uint64]waitingPart{},
	}
}

// verified returns the account to begin with.
func (b *Account) verified() *Recounted {
	v := newRecounted(b.Ledger, b.Attached, b.Scopes[len(b.Scopes)-1].Sources)
	v.Losses = slices.Clone(b.losses)
	for ref, r := range b.Retries {
		v.Waiting[ref.Number()] = waitingPart{Accepted: r.accepted, Attempt: int32(r.Attempt), Calls: uint16(r.calls), Stored: record.IsParked(r.Due)}
	}
	return v
}

// AddOpen adds the parts of a message whose first attempt had not ended.
func (b *Recounted) AddOpen(before *Account, m *record.Calls) {
	if !before.IsOpen(m) {
		return
	}
	b.Undelivered.add(m.Seq, m.Calls, m.At)
	for part := range record.Parts(m.Calls) {
		if ref := (record.Ref{Seq: m.Seq, Part: part}); before.Ended(ref) {
			b.Undelivered.end(ref)
		}
	}
}

// Verified returns what the account says now.
func (a *Ledger) Verified(acknowledged map[string]uint64) *Claim {
	a.mu.Lock()
	defer a.mu.Unlock()
	ledgers, _ := a.ledgersNow()
	v := &Claim{Calls: a.Calls, Outcomes: a.Outcomes, ledgers: ledgers, Tried: map[string]triedTo{}, Losses: New()}
	v.Losses.Lost, v.Losses.Gone = slices.Clone(a.Lost), slices.Clone(a.Gone)
	for name, b := range a.Accounts {
		v.Tried[name] = triedTo{b.Floor, acknowledged[name]}
	}
	return v
}

// Accept takes in a message of CALLS.
func (v *Recount) Accept(m *record.Calls) {
	switch b := v.Accounts[m.Name]; {
	case m.Kind == record.KindCalls:
		for _, b := range v.Accounts {
			if len(b.sources) == 0 || slices.Contains(b.sources, m.Name) {
				b.Accepted += int64(m.Calls)
				b.Undelivered.add(m.Seq, m.Calls, m.At)
			}
		}
	case m.Kind == record.KindDetach:
		delete(v.Accounts, m.Name)
	case m.Kind == record.KindAttach && b == nil:
		v.Accounts[m.Name] = newRecounted(tracking.Ledger{Destination: m.Name}, m.Seq, m.Sources)
	case m.Kind == record.KindAttach:
		b.sources = m.Sources
	case m.Kind == record.KindReplay && b != nil:
		journal.Move(&b.Ledger, m.Calls, m.From, tracking.StatePending)
		b.Pending -= int64(m.Calls) // counted by looking
		b.Waiting[record.Ref{Seq: m.Seq}.Number()] = waitingPart{Accepted: m.Oldest.UnixMilli(), Attempt: 1, Calls: uint16(m.Calls)}
	}
}

// Count takes in an outcome. One of an attempt that has ended before is a
// repetition.
func (v *Recount) Count(o *record.Outcome) {
	b := v.Accounts[o.Destination]
	if b == nil || b.attached != o.Attached {
		return // detached since
	}
	calls, ok := b.end(o)
	if !ok {
		return
	}
	if calls != o.Calls() {
		b.Problem("message %d of CALLS, part %d, attempt %d: the outcome is about %d calls, but %d were to be tried",
			o.Ref.Seq, o.Ref.Part, o.Attempt, o.Calls(), calls)
	}
	b.Delivered += int64(o.Delivered)
	filtered, failed := o.Ended()
	b.Filtered += filtered
	b.Failed += failed
	if len(o.Again) > 0 {
		b.Waiting[o.Ref.Number()] = waitingPart{Accepted: o.Accepted.UnixMilli(), Attempt: int32(o.Attempt + 1), Calls: uint16(len(o.Again)), Stored: record.IsParked(o.Due.UnixNano())}
	}
}

// end takes out the part that an outcome is about, and tells how many of its calls
// were to be tried. It is not ok if the attempt was another than the next.
func (b *Recounted) end(o *record.Outcome) (calls int, ok bool) {
	number := o.Ref.Number()
	if w, waits := b.Waiting[number]; waits {
		if int(w.Attempt) != o.Attempt {
			return 0, false
		}
		delete(b.Waiting, number)
		return int(w.Calls), true
	}
	if o.Attempt != 1 {
		return 0, false
	}
	return b.Undelivered.end(o.Ref)
}

// Problem notes what is wrong.
func (b *Recounted) Problem(format string, args ...any) {
	const most = 100
	if len(b.Problems) < most {
		b.Problems = append(b.Problems, fmt.Sprintf(format, args...))
	}
}

// IsPending counts calls that will be tried again, or for the first time.
func (b *Recounted) IsPending(calls int, at time.Time) {
	b.Pending += int64(calls)
	if b.OldestPending.IsZero() || at.Before(b.OldestPending) {
		b.OldestPending = at
	}
}

// Compare holds what was counted against the ledger as it was when the count
// began.
func (v *Recount) Compare() []journal.Verification {
	var all []journal.Verification
	for _, l := range v.Now.ledgers {
		b := v.Accounts[l.Destination]
		if b == nil {
			all = append(all, journal.Verification{Ledger: l, Problems: []string{"the streams know nothing of this destination"}})
			continue
		}
		l.OldestPending = b.OldestPending
		if l != b.Ledger {
			b.Problem("the ledger says %s, and what is stored says %s", sum(l), sum(b.Ledger))
		}
		delete(v.Accounts, l.Destination)
		all = append(all, b.Verification)
	}
	for _, name := range slices.Sorted(maps.Keys(v.Accounts)) {
		b := v.Accounts[name]
		b.Problem("the ledger knows nothing of this destination")
		all = append(all, b.Verification)
	}
	return all
}

func sum(l tracking.Ledger) string {
	return fmt.Sprintf("%d = %d delivered + %d failed + %d filtered + %d pending + %d lost", l.Accepted, l.Delivered, l.Failed, l.Filtered, l.Pending, l.Lost)
}
