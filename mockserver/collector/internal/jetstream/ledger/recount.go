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

// A Recount counts calls independently of the ledger. It tracks every part of every message until
// the part is finished.
type Recount struct {
	Now      *Claim
	Calls    uint64 // sequence number of the last message read from CALLS
	Accounts map[string]*Recounted
}

// NewRecount returns a recount that starts with the base and is compared with a claim.
func NewRecount(base *Ledger, now *Claim) *Recount {
	r := &Recount{Now: now, Calls: base.Calls, Accounts: map[string]*Recounted{}}
	for name, b := range base.Accounts {
		r.Accounts[name] = b.verified()
	}
	return r
}

// A Claim is the state of the ledger when the recount began.
type Claim struct {
	Calls, Outcomes uint64
	ledgers         []tracking.Ledger
	Tried           map[string]triedTo
	Losses          *Ledger // contains only the known losses
}

// A triedTo contains the end of the finished first attempts in CALLS. Floor is the position in the
// ledger. Acknowledged is the consumer's acknowledged position, where delivery continues.
type triedTo struct{ Floor, Acknowledged uint64 }

// A Recounted is the recount of one destination.
type Recounted struct {
	journal.Verification
	attached    uint64
	sources     []string
	Undelivered undelivered
	Waiting     map[uint64]waitingPart // keyed by Ref.Number
}

// A waitingPart is a part that waits for a retry, or an untried replay. Its size is small, because
// there can be many parts.
type waitingPart struct {
	Accepted int64 // acceptance time of the oldest call, in Unix milliseconds
	Attempt  int32
	Calls    uint16
	Stored   bool // whether the retry is in RETRY or parked
}

func newRecounted(l tracking.Ledger, attached uint64, sources []string) *Recounted {
	return &Recounted{
		Verification: journal.Verification{Ledger: l}, attached: attached, sources: sources,
		Waiting: map[uint64]waitingPart{},
	}
}

// verified returns the initial state of the recount of a destination.
func (b *Account) verified() *Recounted {
	v := newRecounted(b.Ledger, b.Attached, b.Scopes[len(b.Scopes)-1].Sources)
	v.Losses = slices.Clone(b.losses)
	for ref, r := range b.Retries {
		v.Waiting[ref.Number()] = waitingPart{Accepted: r.accepted, Attempt: int32(r.Attempt), Calls: uint16(r.calls), Stored: record.IsParked(r.Due)}
	}
	return v
}

// AddOpen adds the parts of a message that have an unfinished first attempt. before is the account in
// the base.
func (b *Recounted) AddOpen(before *Account, m *record.Calls) {
	if before.Untried(m) == 0 {
		return
	}
	b.Undelivered.add(m.Seq, m.Calls, m.At)
	for part := range record.Parts(m.Calls) {
		if ref := (record.Ref{Seq: m.Seq, Part: part}); before.Ended(ref) {
			b.Undelivered.end(ref)
		}
	}
}

// Claim returns the current state of the ledger, to be compared with a recount. acknowledged contains
// the acknowledged positions of the consumers.
func (a *Ledger) Claim(acknowledged map[string]uint64) *Claim {
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

// Accept counts a message of CALLS.
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
		journal.Move(&b.Ledger, m.Calls, tracking.State(m.From), tracking.StatePending)
		b.Pending -= int64(m.Calls) // Compare computes the pending calls
		b.Waiting[record.Ref{Seq: m.Seq}.Number()] = waitingPart{Accepted: m.Oldest, Attempt: 1, Calls: uint16(m.Calls)}
	}
}

// Count counts an outcome. It ignores further outcomes of the same attempt.
func (v *Recount) Count(o *record.Outcome) {
	b := v.Accounts[o.Destination]
	if b == nil || b.attached != o.Attached {
		return // the destination was detached in the meantime
	}
	calls, ok := b.end(o)
	if !ok {
		return
	}
	if calls != o.Calls() {
		b.Problem("message %d of CALLS, part %d, attempt %d: the outcome has %d calls, but %d were leased",
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

// end removes the part of an outcome, and returns how many calls of the part were unfinished. ok is
// false if the outcome is not about the next attempt.
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

// Problem records a difference.
func (b *Recounted) Problem(format string, args ...any) {
	const most = 100
	if len(b.Problems) < most {
		b.Problems = append(b.Problems, fmt.Sprintf(format, args...))
	}
}

// AddPending counts pending calls.
func (b *Recounted) AddPending(calls int, at time.Time) {
	b.Pending += int64(calls)
	if b.OldestPending.IsZero() || at.Before(b.OldestPending) {
		b.OldestPending = at
	}
}

// Compare returns the recount of each destination, with its differences from the claim.
func (v *Recount) Compare() []journal.Verification {
	var all []journal.Verification
	for _, l := range v.Now.ledgers {
		b := v.Accounts[l.Destination]
		if b == nil {
			all = append(all, journal.Verification{Ledger: l, Problems: []string{"this destination is missing in the stored data"}})
			continue
		}
		l.OldestPending = b.OldestPending
		if b.Ledger = pendingOnce(b.Ledger); l != b.Ledger {
			b.Problem("the ledger contains %s, but the stored data contains %s", sum(l), sum(b.Ledger))
		}
		delete(v.Accounts, l.Destination)
		all = append(all, b.Verification)
	}
	for _, name := range slices.Sorted(maps.Keys(v.Accounts)) {
		b := v.Accounts[name]
		b.Problem("this destination is missing in the ledger")
		all = append(all, b.Verification)
	}
	return all
}

func sum(l tracking.Ledger) string {
	return fmt.Sprintf("%d = %d delivered + %d failed + %d filtered + %d pending + %d lost", l.Accepted, l.Delivered, l.Failed, l.Filtered, l.Pending, l.Lost)
}
