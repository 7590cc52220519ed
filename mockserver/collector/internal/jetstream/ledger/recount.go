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
	Now      *State
	Calls    uint64 // sequence number of the last message read from CALLS
	Accounts map[string]*Recounted
}

// NewRecount returns a recount that starts with the base and is compared with a state.
func NewRecount(base *Ledger, now *State) *Recount {
	r := &Recount{Now: now, Calls: base.Calls, Accounts: map[string]*Recounted{}}
	for name, a := range base.Accounts {
		r.Accounts[name] = a.verified()
	}
	return r
}

// A State is the state of the ledger when a recount began.
type State struct {
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

// A waitingPart is a part that waits for a retry, or a replay that was not attempted. Its size is
// small, because there can be many parts.
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
func (a *Account) verified() *Recounted {
	v := newRecounted(a.Totals, a.Attached, a.Scopes[len(a.Scopes)-1].Sources)
	v.Losses = slices.Clone(a.losses)
	for ref, r := range a.Retries {
		v.Waiting[ref.Number()] = waitingPart{Accepted: r.accepted, Attempt: int32(r.Attempt), Calls: uint16(r.calls), Stored: record.IsParked(r.Due)}
	}
	return v
}

// AddUnattempted adds the parts of a message that have an unfinished first attempt. before is the
// account in the base.
func (r *Recounted) AddUnattempted(before *Account, m *record.Calls) {
	if before.UnattemptedIn(m) == 0 {
		return
	}
	r.Undelivered.add(m.Seq, m.Calls, m.At)
	for part := range record.Parts(m.Calls) {
		if ref := (record.Ref{Seq: m.Seq, Part: part}); before.Ended(ref) {
			r.Undelivered.end(ref)
		}
	}
}

// Accept counts a message of CALLS.
func (r *Recount) Accept(m *record.Calls) {
	switch a := r.Accounts[m.Name]; {
	case m.Kind == record.KindCalls:
		for _, a := range r.Accounts {
			if len(a.sources) == 0 || slices.Contains(a.sources, m.Name) {
				a.Accepted += int64(m.Calls)
				a.Undelivered.add(m.Seq, m.Calls, m.At)
			}
		}
	case m.Kind == record.KindDetach:
		delete(r.Accounts, m.Name)
	case m.Kind == record.KindAttach && a == nil:
		r.Accounts[m.Name] = newRecounted(tracking.Ledger{Destination: m.Name}, m.Seq, m.Sources)
	case m.Kind == record.KindAttach:
		a.sources = m.Sources
	case m.Kind == record.KindReplay && a != nil:
		journal.Move(&a.Ledger, m.Calls, tracking.State(m.From), tracking.StatePending)
		a.Pending -= int64(m.Calls) // Compare computes the pending calls
		a.Waiting[record.Ref{Seq: m.Seq}.Number()] = waitingPart{Accepted: m.Oldest, Attempt: 1, Calls: uint16(m.Calls)}
	}
}

// Count counts an outcome. It ignores further outcomes of the same attempt.
func (r *Recount) Count(o *record.Outcome) {
	a := r.Accounts[o.Destination]
	if a == nil || a.attached != o.Attached {
		return // the destination was detached in the meantime
	}
	calls, ok := a.end(o)
	if !ok {
		return
	}
	if calls != o.Calls() {
		a.Problem("message %d of CALLS, part %d, attempt %d: the outcome has %d calls, but %d were leased",
			o.Ref.Seq, o.Ref.Part, o.Attempt, o.Calls(), calls)
	}
	a.Delivered += int64(o.Delivered)
	filtered, failed := o.FilteredAndFailed()
	a.Filtered += filtered
	a.Failed += failed
	if len(o.Again) > 0 {
		a.Waiting[o.Ref.Number()] = waitingPart{Accepted: o.Accepted.UnixMilli(), Attempt: int32(o.Attempt + 1), Calls: uint16(len(o.Again)), Stored: record.IsParked(o.Due.UnixNano())}
	}
}

// end removes the part of an outcome, and returns how many calls of the part were unfinished. ok is
// false if the outcome is not about the next attempt.
func (r *Recounted) end(o *record.Outcome) (calls int, ok bool) {
	number := o.Ref.Number()
	if w, waits := r.Waiting[number]; waits {
		if int(w.Attempt) != o.Attempt {
			return 0, false
		}
		delete(r.Waiting, number)
		return int(w.Calls), true
	}
	if o.Attempt != 1 {
		return 0, false
	}
	return r.Undelivered.end(o.Ref)
}

// Problem records a difference.
func (r *Recounted) Problem(format string, args ...any) {
	const most = 100
	if len(r.Problems) < most {
		r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
	}
}

// AddPending counts pending calls.
func (r *Recounted) AddPending(calls int, at time.Time) {
	r.Pending += int64(calls)
	if r.OldestPending.IsZero() || at.Before(r.OldestPending) {
		r.OldestPending = at
	}
}

// Compare returns the recount of each destination, with its differences from the ledger.
func (r *Recount) Compare() []journal.Verification {
	var all []journal.Verification
	for _, l := range r.Now.ledgers {
		a := r.Accounts[l.Destination]
		if a == nil {
			all = append(all, journal.Verification{Ledger: l, Problems: []string{"this destination is missing in the stored data"}})
			continue
		}
		l.OldestPending = a.OldestPending
		if a.Ledger = pendingOnce(a.Ledger); l != a.Ledger {
			a.Problem("the ledger contains %s, but the stored data contains %s", sum(l), sum(a.Ledger))
		}
		delete(r.Accounts, l.Destination)
		all = append(all, a.Verification)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Accounts)) {
		a := r.Accounts[name]
		a.Problem("this destination is missing in the ledger")
		all = append(all, a.Verification)
	}
	return all
}

func sum(l tracking.Ledger) string {
	return fmt.Sprintf("%d = %d delivered + %d failed + %d filtered + %d pending + %d lost", l.Accepted, l.Delivered, l.Failed, l.Filtered, l.Pending, l.Lost)
}
