package ledger

import (
	"iter"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
)

// A Retry is an attempt that calls of a destination wait for.
type Retry struct {
	Destination string
	Ref         record.Ref
	PendingRetry
}

// Stored returns the retry's message in RETRY, without the notes of the calls.
func (r Retry) Stored() record.Retry {
	return record.Retry{
		Ref: r.Ref, Attempt: r.Attempt, Places: r.Which.Places(r.Ref), From: r.Outcome, Decided: time.Unix(0, r.Decided), Due: time.Unix(0, r.Due),
	}
}

// Unattempted counts the calls whose first attempt has not ended.
func (l *Ledger) Unattempted() (calls int64) {
	for _, a := range l.Accounts {
		calls += a.Unattempted
	}
	return calls
}

// WaitingCalls counts the calls that wait for another attempt, in messages up to the given one.
func (l *Ledger) WaitingCalls(to uint64) (calls int64) {
	for _, a := range l.Accounts {
		for ref, r := range a.Retries {
			if ref.Seq <= to {
				calls += int64(r.calls)
			}
		}
	}
	return calls
}

// FirstOutcome returns the first message of OUTCOMES that is still needed: it was not read, or a
// retry refers to it.
func (l *Ledger) FirstOutcome() uint64 {
	first := l.Outcomes + 1
	for _, a := range l.Accounts {
		for _, r := range a.Retries {
			if r.Outcome > 0 {
				first = min(first, r.Outcome)
			}
		}
	}
	return first
}

// IsBehind reports whether messages that the ledger has not read may have been removed, because the base contains
// them. In this case, the base contains all outcomes that the ledger has read.
func (l *Ledger) IsBehind(base *Ledger) bool {
	return l.Calls < base.Purged || l.Outcomes+1 < base.FirstOutcome()
}

// IsAfter reports whether a base was stored after another one.
func (l *Ledger) IsAfter(before *Ledger) bool {
	return l.Calls > before.Calls || l.Purged > before.Purged
}

// Finish raises all floors to a message that follows no pending calls.
func (l *Ledger) Finish(to uint64) {
	for _, a := range l.Accounts {
		a.advance(to)
	}
}

// UnattemptedParts yields the parts of a message whose first attempt has not ended.
func (a *Account) UnattemptedParts(m *record.Calls) iter.Seq[record.Ref] {
	return func(yield func(record.Ref) bool) {
		if m.Kind != record.KindCalls || !a.Takes(m.Seq, m.Name) {
			return
		}
		for part := range record.Parts(m.Calls) {
			if ref := (record.Ref{Seq: m.Seq, Part: part}); !a.Ended(ref) && !yield(ref) {
				return
			}
		}
	}
}

// UnattemptedIn counts the calls of a message whose first attempt has not ended.
func (a *Account) UnattemptedIn(m *record.Calls) (calls int64) {
	for ref := range a.UnattemptedParts(m) {
		calls += int64(record.PartSize(m.Calls, ref.Part))
	}
	return calls
}
