package ledger

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// testLedger returns a ledger with every kind of data.
func testLedger() *Ledger {
	a := New()
	for _, m := range []*record.Calls{
		{Seq: 1, Kind: record.KindAttach, Name: "crm"},
		{Seq: 2, Kind: record.KindAttach, Name: "mail", Control: record.Control{Sources: []string{"ios", "web"}}},
		{Seq: 3, Kind: record.KindCalls, Name: "web", Calls: 300},
		{Seq: 4, Kind: record.KindAttach, Name: "mail"},
		{Seq: 5, Kind: record.KindCalls, Name: "web", Calls: 10},
		{Seq: 6, Kind: record.KindReplay, Name: "crm", Calls: 2, At: time.Unix(9, 0), Control: record.Control{From: uint8(tracking.StateDelivered), Oldest: 8000}},
		{Seq: 7, Kind: record.KindLost, Control: record.Control{First: 7, Last: 8}},
		{Seq: 8, Kind: record.KindLost, Control: record.Control{First: 7, Last: 8}},
	} {
		a.ReadCalls(m)
	}
	_ = a.ReadOutcomes(context.Background(), &record.Outcomes{Seq: 1, All: []record.Outcome{
		{Destination: "crm", Attached: 1, Ref: record.Ref{Seq: 3, Part: 1}, Attempt: 1, Delivered: 100, Again: []int{1, 5}, Due: time.Unix(5, 0), Accepted: time.Unix(4, 0), Filtered: 26},
		{Destination: "crm", Attached: 1, Ref: record.Ref{Seq: 7, Part: 0}, Attempt: 1, Delivered: 5},
	}})
	a.Gone = []record.Span{{First: 2, Last: 3}}
	return a
}

func TestEncodeAndDecode(t *testing.T) {
	a := testLedger()
	b, err := Decode(a.Encode())
	if err != nil {
		t.Fatal(err)
	}
	ledgers, _ := a.Ledgers()
	for _, l := range ledgers {
		if !l.Holds() {
			t.Errorf("%+v", l)
		}
	}
	a.changed, b.changed, a.awaited = nil, nil, 0
	for name := range a.Accounts {
		if !reflect.DeepEqual(a.Accounts[name], b.Accounts[name]) {
			t.Errorf("got %+v\nwant %+v", b.Accounts[name], a.Accounts[name])
		}
	}
	if len(a.Accounts) != len(b.Accounts) || a.Calls != b.Calls || a.Outcomes != b.Outcomes ||
		!reflect.DeepEqual(a.Lost, b.Lost) || !reflect.DeepEqual(a.Gone, b.Gone) || len(a.toAll) != len(b.toAll) {
		t.Fatalf("got %+v\nwant %+v", b, a)
	}
}

func FuzzAccount(f *testing.F) {
	f.Add(testLedger().Encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		if a, err := Decode(data); err == nil {
			if _, err := Decode(a.Encode()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestAccountTakesEachOutcomeOnce applies outcomes in all possible orders, and repeats them.
// A process can read a replay before it reads that the calls have failed.
func TestReplayIsReadBeforeTheOutcome(t *testing.T) {
	a := New()
	a.ReadCalls(&record.Calls{Seq: 1, Kind: record.KindAttach, Name: "crm"})
	a.ReadCalls(&record.Calls{Seq: 2, Kind: record.KindCalls, Name: "web", Calls: 3})
	a.ReadCalls(&record.Calls{Seq: 3, Kind: record.KindReplay, Name: "crm", Calls: 2, At: time.Unix(9, 0), Control: record.Control{From: uint8(tracking.StateFailed), Oldest: 8000}})
	check := func(want tracking.Ledger) {
		t.Helper()
		ledgers, _ := a.Ledgers()
		want.Destination, want.OldestPending = "crm", ledgers[0].OldestPending
		if ledgers[0] != want || !want.Holds() {
			t.Errorf("got %+v, want %+v", ledgers[0], want)
		}
	}
	check(tracking.Ledger{Accepted: 3, Pending: 3})
	failed := []record.Failure{{Place: 0}, {Place: 1}}
	_ = a.ReadOutcomes(t.Context(), &record.Outcomes{Seq: 1, All: []record.Outcome{{Destination: "crm", Attached: 1, Ref: record.Ref{Seq: 2}, Attempt: 1, Delivered: 1, Failed: failed}}})
	check(tracking.Ledger{Accepted: 3, Delivered: 1, Pending: 2})
}

func TestAccountTakesEachOutcomeOnce(t *testing.T) {
	first := record.Outcome{Destination: "d", Attached: 1, Ref: record.Ref{Seq: 2, Part: 0}, Attempt: 1, Delivered: 2, Again: []int{0}}
	second := record.Outcome{Destination: "d", Attached: 1, Ref: record.Ref{Seq: 2, Part: 0}, Attempt: 2, Delivered: 1}
	other := record.Outcome{Destination: "d", Attached: 9, Ref: record.Ref{Seq: 2, Part: 0}, Attempt: 1, Delivered: 3}
	wrong := record.Outcome{Destination: "d", Attached: 1, Ref: record.Ref{Seq: 2, Part: 0}, Attempt: 2, Delivered: 2}
	for _, c := range []struct {
		outcomes []record.Outcome
		want     string
	}{
		{[]record.Outcome{first}, "3 = 2 + 0 + 0 + 1"},
		{[]record.Outcome{first, first, second, first, second}, "3 = 3 + 0 + 0 + 0"},
		{[]record.Outcome{second, other}, "3 = 0 + 0 + 0 + 3"},
		{[]record.Outcome{first, wrong}, "3 = 2 + 0 + 0 + 1"},
	} {
		a := New()
		a.ReadCalls(&record.Calls{Seq: 1, Kind: record.KindAttach, Name: "d"})
		a.ReadCalls(&record.Calls{Seq: 2, Kind: record.KindCalls, Name: "web", Calls: 3})
		for i := range c.outcomes {
			if err := a.ReadOutcomes(t.Context(), &record.Outcomes{Seq: uint64(i + 1), All: c.outcomes[i : i+1]}); err != nil {
				t.Fatal(err)
			}
		}
		ledgers, _ := a.Ledgers()
		l := ledgers[0]
		if got := fmt.Sprintf("%d = %d + %d + %d + %d", l.Accepted, l.Delivered, l.Failed, l.Filtered, l.Pending); got != c.want {
			t.Errorf("%+v: %s, want %s", c.outcomes, got, c.want)
		}
	}
}
