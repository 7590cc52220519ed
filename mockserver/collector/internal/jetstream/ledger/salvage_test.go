package ledger

import (
	"reflect"
	"testing"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// TestSalvageCountsEachLostCallOnce loses message 4, all messages from 6 on, and the first outcome.
// The recent file contains messages 6 and 8. Only an outcome refers to message 7.
func TestSalvageCountsEachLostCallOnce(t *testing.T) {
	outcome := func(seq uint64, part, attempt, delivered int, again ...int) record.Outcome {
		return record.Outcome{Destination: "crm", Attached: 1, Ref: record.Ref{Seq: seq, Part: part}, Attempt: attempt, Delivered: delivered, Again: again}
	}
	live := NewLive(New())
	l := live.ledger
	l.ReadCalls(&record.Calls{Seq: 1, Kind: record.KindAttach, Name: "crm"})
	l.ReadCalls(&record.Calls{Seq: 2, Kind: record.KindAttach, Name: "mail", Control: record.Control{Sources: []string{"ios"}}})
	third := &record.Calls{Seq: 3, Kind: record.KindCalls, Name: "web", Calls: 3}
	l.ReadCalls(third)
	l.ReadCalls(&record.Calls{Seq: 4, Kind: record.KindCalls, Name: "web", Calls: 2})
	for i, o := range []record.Outcome{outcome(3, 0, 1, 2, 0), outcome(4, 0, 1, 1, 0)} {
		if err := live.ReadOutcomes(t.Context(), &record.Outcomes{Seq: uint64(i + 1), All: []record.Outcome{o}}); err != nil {
			t.Fatal(err)
		}
	}

	outcomes := Extent{First: 2, Last: 4}
	outcomes.Begin(1)
	s := l.Salvage(Extent{First: 1, Last: 5, Holes: []record.Span{{First: 4, Last: 4}}}, outcomes)
	fifth := &record.Calls{Seq: 5, Kind: record.KindCalls, Name: "web", Calls: 1}
	if s.First() != 6 {
		t.Errorf("no first attempt is unfinished, but First returns %d", s.First())
	}
	l.ReadCalls(fifth)
	s.ReadNoted([]record.Accepted{
		{Seq: 4, Calls: 2, Source: "web"},
		{Seq: 5, Calls: 1, Source: "web"},
		{Seq: 6, Calls: 4, Source: "web"},
		{Seq: 6, Calls: 4, Source: "web"},
		{Seq: 8, Calls: 2, Destination: "crm", From: tracking.StateDelivered},
	})
	other := outcome(7, 2, 1, 1)
	other.Attached = 9
	for _, c := range []struct {
		seq uint64
		record.Outcome
	}{
		{3, outcome(7, 0, 1, 4, 0, 1)},
		{4, outcome(7, 0, 1, 6)},
		{4, outcome(7, 1, 2, 1)}, // the outcome of the first attempt is lost
		{4, other},
		{5, outcome(7, 3, 1, 1)}, // stored later
	} {
		s.ReadOutcome(&c.Outcome, c.seq)
	}
	if s.First() != 3 {
		t.Errorf("First returns %d", s.First())
	}
	s.FindStored(third)
	s.FindStored(fifth)
	at := time.UnixMilli(1)
	lost := s.End(8, at, "because")

	if want := map[string]int64{"crm": 9}; !reflect.DeepEqual(lost, want) {
		t.Errorf("lost %v, want %v", lost, want)
	}
	ledgers, _ := live.Ledgers()
	ledgers[0].OldestPending = time.Time{}
	want := tracking.Ledger{Destination: "crm", Accepted: 16, Delivered: 5, Pending: 2, Lost: 9}
	if ledgers[0] != want || !want.Holds() || ledgers[1] != (tracking.Ledger{Destination: "mail"}) {
		t.Errorf("got %+v", ledgers)
	}
	recount := NewRecount(l, live.State(nil))
	if losses := recount.Accounts["crm"].Losses; !reflect.DeepEqual(losses, []journal.Loss{{At: at, Calls: 9, Cause: "because"}}) {
		t.Errorf("losses: %+v", losses)
	}
	if known := recount.Now.Losses; !known.IsLostCall(record.Span{First: 6, Last: 8}) || !known.IsLostOutcome(record.Span{First: 1, Last: 1}) {
		t.Errorf("the recount does not know the losses: %+v", known)
	}
	if r := l.Accounts["crm"].Retries; len(r) != 1 || r[record.Ref{Seq: 3}].calls != 1 || r[record.Ref{Seq: 3}].Outcome != 0 {
		t.Errorf("the retry of message 3 must not refer to the lost outcome: %+v", r)
	}
	if l.Calls != 8 || l.Outcomes != 4 || l.Frozen ||
		!reflect.DeepEqual(l.LostOutcomes, []record.Span{{First: 1, Last: 1}}) ||
		!reflect.DeepEqual(l.LostCalls, []record.Span{{First: 4, Last: 4}, {First: 6, Last: 8}}) {
		t.Errorf("got %+v", l)
	}
	if tried := l.Accounts["crm"].Tried; !tried(record.Ref{Seq: 3}, 1) || tried(record.Ref{Seq: 3}, 2) || tried(record.Ref{Seq: 5}, 1) {
		t.Error("Tried is wrong")
	}
}

// TestSalvageKeepsIntactStreams starts a salvage although nothing is missing.
func TestSalvageKeepsIntactStreams(t *testing.T) {
	l := testLedger()
	before := l.Encode()
	want, _ := l.Ledgers()
	s := l.ledger.Salvage(Extent{First: 1, Last: 8}, Extent{First: 1, Last: 1})
	for _, m := range []*record.Calls{{Seq: 3, Kind: record.KindCalls, Name: "web", Calls: 300}, {Seq: 5, Kind: record.KindCalls, Name: "web", Calls: 10}} {
		s.FindStored(m)
	}
	if lost := s.End(8, time.UnixMilli(1), "because"); len(lost) != 0 {
		t.Errorf("lost %v", lost)
	}
	if got, _ := l.Ledgers(); !reflect.DeepEqual(got, want) || len(l.Encode()) != len(before) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestExtentBeginsWithHole(t *testing.T) {
	for _, c := range []struct {
		begin uint64
		want  []record.Span
	}{{5, nil}, {6, nil}, {4, []record.Span{{First: 4, Last: 4}}}, {2, []record.Span{{First: 2, Last: 4}}}} {
		e := Extent{First: 5, Last: 7}
		if e.Begin(c.begin); !reflect.DeepEqual(e.Holes, c.want) {
			t.Errorf("Begin(%d): %v, want %v", c.begin, e.Holes, c.want)
		}
		if e.Has(4) || !e.Has(5) || !e.Has(7) || e.Has(8) {
			t.Errorf("%+v", e)
		}
	}
}
