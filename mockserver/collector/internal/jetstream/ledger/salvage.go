package ledger

import (
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
)

// An Extent is the range of a stream's messages.
type Extent struct {
	First, Last uint64
	Holes       []record.Span // missing messages in between
}

// Begin adds a hole if the stream starts after the message first.
func (e *Extent) Begin(first uint64) {
	if e.First > first {
		e.Holes = append([]record.Span{{First: first, Last: e.First - 1}}, e.Holes...)
	}
}

// A Salvage continues a ledger with the remaining messages of damaged streams, and counts the lost
// calls. A call is lost if it is unfinished and its message is missing. The ledger knows the
// messages up to its position. Later missing messages are known from the recent file or from their
// outcomes.
//
// The methods must be called in the order of this file. Methods for messages must be called once
// for each message.
type Salvage struct {
	ledger          *Ledger
	calls, outcomes Extent
	known           uint64           // the ledger's position in CALLS
	noted           map[uint64]bool  // later messages that are missing, but are in the recent file
	stored          map[string]int64 // number of unattempted calls that are still stored, keyed by destination
}

// Salvage starts a salvage.
func (l *Ledger) Salvage(calls, outcomes Extent) *Salvage {
	l.Frozen = true // missing messages are skipped, and their outcomes may still follow
	return &Salvage{ledger: l, calls: calls, outcomes: outcomes, known: l.Calls, noted: map[uint64]bool{}, stored: map[string]int64{}}
}

// ReadNoted counts missing messages that are in the recent file.
func (s *Salvage) ReadNoted(all []record.Accepted) {
	for _, m := range all {
		if m.Seq <= s.known || s.calls.Has(m.Seq) || s.noted[m.Seq] {
			continue
		}
		s.noted[m.Seq] = true
		for name, a := range s.ledger.Accounts {
			switch {
			case m.Destination == "" && a.Takes(m.Seq, m.Source):
				a.Totals.Accepted += int64(m.Calls)
				a.Unattempted += int64(m.Calls)
			case m.Destination == name && a.Attached < m.Seq:
				a.replay(&record.Calls{Seq: m.Seq, Calls: m.Calls, Control: record.Control{From: uint8(m.From)}})
			}
		}
	}
}

// ReadOutcome counts an outcome after the ledger's position. If the outcome's message is unknown,
// its calls are also counted as accepted.
func (s *Salvage) ReadOutcome(o *record.Outcome, seq uint64) {
	if seq > s.outcomes.Last {
		return // the outcome was stored after the extent was measured
	}
	a := s.ledger.Accounts[o.Destination]
	unknown := o.Ref.Seq > s.known && !s.calls.Has(o.Ref.Seq) && !s.noted[o.Ref.Seq]
	if a != nil && a.Attached == o.Attached && o.Attempt == 1 && unknown && !a.Ended(o.Ref) {
		a.Totals.Accepted += int64(o.Calls())
		a.Unattempted += int64(o.Calls())
	}
	s.ledger.Count(o, seq)
}

// First returns the first message of CALLS that may have unfinished first attempts.
func (s *Salvage) First() uint64 {
	first := s.calls.Last + 1
	for _, a := range s.ledger.Accounts {
		if a.Unattempted > 0 {
			first = min(first, a.Floor+1)
		}
	}
	return first
}

// FindStored counts the unattempted calls of a message. Call it with all messages, starting with First.
func (s *Salvage) FindStored(m *record.Calls) {
	for name, a := range s.ledger.Accounts {
		s.stored[name] += a.UnattemptedIn(m)
	}
}

// End counts unfinished calls in missing messages as lost, and returns their number by destination.
// The ledger continues after the message beyond, or after the end of CALLS.
func (s *Salvage) End(beyond uint64, at time.Time, cause string) (lost map[string]int64) {
	lost = map[string]int64{}
	for name, a := range s.ledger.Accounts {
		if n := a.dropLost(s.calls, s.outcomes, s.stored[name]); n != 0 {
			lost[name] = n
			a.lose(n, at, cause)
		}
	}
	l := s.ledger
	l.Calls, l.Outcomes, l.Frozen = max(s.calls.Last, beyond), s.outcomes.Last, false
	l.LostOutcomes = addSpans(l.LostOutcomes, s.outcomes.Holes...)
	l.LostCalls = addSpans(l.LostCalls, s.calls.Holes...)
	if beyond > s.calls.Last {
		l.LostCalls = addSpans(l.LostCalls, record.Span{First: s.calls.Last + 1, Last: beyond})
	}
	return lost
}

// addSpans adds spans that are not yet contained.
func addSpans(spans []record.Span, more ...record.Span) []record.Span {
	for _, s := range more {
		if !record.Contains(spans, s) {
			spans = append(spans, s)
		}
	}
	return spans
}

// dropLost removes pending calls that are no longer stored, and returns their number. stored is the
// number of unattempted calls that are still stored.
func (a *Account) dropLost(calls, outcomes Extent, stored int64) (lost int64) {
	lost = a.Unattempted - stored
	a.Unattempted = stored
	for ref, r := range a.Retries {
		if !calls.Has(ref.Seq) {
			lost += int64(r.calls)
			delete(a.Retries, ref)
		} else if r.Outcome != 0 && !outcomes.Has(r.Outcome) {
			r.Outcome = 0 // the sequence number may be reused; only the notes of the calls are lost
			a.Retries[ref] = r
		}
	}
	return lost
}

// Has reports whether a message is stored.
func (e *Extent) Has(seq uint64) bool {
	return seq >= e.First && seq <= e.Last && !record.Contains(e.Holes, record.Span{First: seq, Last: seq})
}

// Tried reports whether an attempt at a part is finished.
func (a *Account) Tried(ref record.Ref, attempt int) bool {
	if r, waits := a.Retries[ref]; waits {
		return r.Attempt > attempt
	}
	return a.Ended(ref)
}
