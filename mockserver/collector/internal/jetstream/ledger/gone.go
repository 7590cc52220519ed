package ledger

import "github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"

// An Extent is what a stream has.
type Extent struct {
	First, Last uint64
	Holes       []record.Span // messages between that are gone
}

// Begin takes it for a hole that a stream does not begin where it should.
func (e *Extent) Begin(first uint64) {
	if e.First > first {
		e.Holes = append([]record.Span{{First: first, Last: e.First - 1}}, e.Holes...)
	}
}

// AcceptGone counts the calls of messages after a known one that are gone, and returns
// which these are.
func (a *Ledger) AcceptGone(all []record.Accepted, there Extent, known uint64) map[uint64]bool {
	gone := map[uint64]bool{}
	for _, m := range all {
		if m.Seq <= known || there.Has(m.Seq) || gone[m.Seq] {
			continue
		}
		gone[m.Seq] = true
		for _, b := range a.Accounts {
			if b.Takes(m.Seq, m.Source) {
				b.Ledger.Accepted += int64(m.Calls)
				b.Fresh += int64(m.Calls)
			}
		}
	}
	return gone
}

// CountKnowing counts an outcome. One about a message of which nothing is known says
// that there were such calls.
func (a *Ledger) CountKnowing(o *record.Outcome, seq uint64, unknown func(seq uint64) bool) {
	b := a.Accounts[o.Destination]
	if b != nil && b.Attached == o.Attached && o.Attempt == 1 && unknown(o.Ref.Seq) && !b.Ended(o.Ref) {
		b.Ledger.Accepted += int64(o.Calls())
		b.Fresh += int64(o.Calls())
	}
	a.Count(o, seq)
}

// Tried reports whether an attempt at a part has ended.
func (b *Account) Tried(ref record.Ref, attempt int) bool {
	if r, waits := b.Retries[ref]; waits {
		return r.Attempt > attempt
	}
	return b.Ended(ref)
}

// Has reports whether a message is there.
func (e *Extent) Has(seq uint64) bool {
	return seq >= e.First && seq <= e.Last && !record.Contains(e.Holes, record.Span{First: seq, Last: seq})
}

// DropGone takes out what is pending and no longer stored, and returns how many calls
// that is. stored is how many are there that were never tried.
func (b *Account) DropGone(calls, outcomes Extent, stored int64) (lost int64) {
	lost = b.Fresh - stored
	b.Fresh = stored
	for ref, r := range b.Retries {
		if !calls.Has(ref.Seq) {
			lost += int64(r.calls)
			delete(b.Retries, ref)
		} else if r.Outcome != 0 && !outcomes.Has(r.Outcome) {
			r.Outcome = 0 // its number may be used again; only what was noted is lost
			b.Retries[ref] = r
		}
	}
	return lost
}
