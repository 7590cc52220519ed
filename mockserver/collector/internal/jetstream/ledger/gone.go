package ledger

import (
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
)

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

// A Salvage has a ledger go on with what is left of the streams, and finds out what is
// lost: of the calls in messages that are gone, those that nobody is done with. No message
// says that there were such calls. It is known of those before the ledger's end from the
// ledger, of those behind it from what was noted beside, and of those that were not noted
// from outcomes about them, which may be stored still.
//
// Its methods are called in their order, the ones that take messages for each one.
type Salvage struct {
	ledger          *Ledger
	calls, outcomes Extent
	known           uint64           // the last message of CALLS that the ledger had read
	noted           map[uint64]bool  // messages behind it that are gone, and were noted
	stored          map[string]int64 // calls that are there and were never tried, of each destination
}

// Salvage begins. The ledger is not used by others until it ends.
func (a *Ledger) Salvage(calls, outcomes Extent) *Salvage {
	a.Held = true // outcomes may be about messages that are passed over, since they are gone
	return &Salvage{ledger: a, calls: calls, outcomes: outcomes, known: a.Calls, noted: map[uint64]bool{}, stored: map[string]int64{}}
}

// ReadNoted takes in what was noted about messages, of those that are gone.
func (s *Salvage) ReadNoted(all []record.Accepted) {
	for _, m := range all {
		if m.Seq <= s.known || s.calls.Has(m.Seq) || s.noted[m.Seq] {
			continue
		}
		s.noted[m.Seq] = true
		for name, b := range s.ledger.Accounts {
			switch {
			case m.Destination == "" && b.Takes(m.Seq, m.Source):
				b.Ledger.Accepted += int64(m.Calls)
				b.Fresh += int64(m.Calls)
			case m.Destination == name && b.Attached < m.Seq:
				b.replay(&record.Calls{Seq: m.Seq, Calls: m.Calls, From: m.From})
			}
		}
	}
}

// ReadOutcome takes in an outcome behind the ledger's end, of a message of OUTCOMES. One
// about a message of which nothing is known says that there were such calls.
func (s *Salvage) ReadOutcome(o *record.Outcome, seq uint64) {
	if seq > s.outcomes.Last {
		return // it came meanwhile
	}
	b := s.ledger.Accounts[o.Destination]
	unknown := o.Ref.Seq > s.known && !s.calls.Has(o.Ref.Seq) && !s.noted[o.Ref.Seq]
	if b != nil && b.Attached == o.Attached && o.Attempt == 1 && unknown && !b.Ended(o.Ref) {
		b.Ledger.Accepted += int64(o.Calls())
		b.Fresh += int64(o.Calls())
	}
	s.ledger.Count(o, seq)
}

// First returns the first message of CALLS that may have calls whose first attempt has
// not ended.
func (s *Salvage) First() uint64 {
	first := s.calls.Last + 1
	for _, b := range s.ledger.Accounts {
		if b.Fresh > 0 {
			first = min(first, b.Floor+1)
		}
	}
	return first
}

// FindStored takes in a message of CALLS, from First on.
func (s *Salvage) FindStored(m *record.Calls) {
	if m.Kind != record.KindCalls {
		return
	}
	for name, b := range s.ledger.Accounts {
		if !b.Takes(m.Seq, m.Name) {
			continue
		}
		for part := range record.Parts(m.Calls) {
			if !b.Ended(record.Ref{Seq: m.Seq, Part: part}) {
				s.stored[name] += int64(record.PartSize(m.Calls, part))
			}
		}
	}
}

// End takes what is pending and gone for lost, and says why. It returns how many calls that
// is of each destination that has lost some. The ledger's end is at beyond, or where
// CALLS ends if that is behind it.
func (s *Salvage) End(beyond uint64, at time.Time, cause string) (lost map[string]int64) {
	lost = map[string]int64{}
	for name, b := range s.ledger.Accounts {
		if n := b.dropGone(s.calls, s.outcomes, s.stored[name]); n != 0 {
			lost[name] = n
			b.lose(n, at, cause)
		}
	}
	a := s.ledger
	a.Calls, a.Outcomes, a.Held = max(s.calls.Last, beyond), s.outcomes.Last, false
	a.Gone = addSpans(a.Gone, s.outcomes.Holes...)
	a.Lost = addSpans(a.Lost, s.calls.Holes...)
	if beyond > s.calls.Last {
		a.Lost = addSpans(a.Lost, record.Span{First: s.calls.Last + 1, Last: beyond})
	}
	return lost
}

// addSpans adds those that are not in the others.
func addSpans(spans []record.Span, more ...record.Span) []record.Span {
	for _, s := range more {
		if !record.Contains(spans, s) {
			spans = append(spans, s)
		}
	}
	return spans
}

// dropGone takes out what is pending and no longer stored, and returns how many calls
// that is. stored is how many are there that were never tried.
func (b *Account) dropGone(calls, outcomes Extent, stored int64) (lost int64) {
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

// Has reports whether a message is there.
func (e *Extent) Has(seq uint64) bool {
	return seq >= e.First && seq <= e.Last && !record.Contains(e.Holes, record.Span{First: seq, Last: seq})
}

// Tried reports whether an attempt at a part has ended.
func (b *Account) Tried(ref record.Ref, attempt int) bool {
	if r, waits := b.Retries[ref]; waits {
		return r.Attempt > attempt
	}
	return b.Ended(ref)
}
