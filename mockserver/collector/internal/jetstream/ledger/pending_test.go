package ledger

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// TestPendingMessagesAreNeeded checks which messages may be removed. crm finishes message 3 last.
func TestPendingMessagesAreNeeded(t *testing.T) {
	l := NewLive(New())
	outcomes := uint64(0)
	end := func(o record.Outcome) {
		o.Attached, o.Accepted = map[string]uint64{"crm": 1, "mail": 2}[o.Destination], time.UnixMilli(int64(o.Ref.Seq))
		outcomes++
		if err := l.ReadOutcomes(t.Context(), &record.Outcomes{Seq: outcomes, All: []record.Outcome{o}}); err != nil {
			t.Fatal(err)
		}
	}
	check := func(want string) {
		t.Helper()
		three, four := l.Behind(3), l.Behind(4)
		slices.Sort(four)
		ledgers, _ := l.Ledgers()
		got := fmt.Sprintf("finished %d, first outcome %d, behind 3: %v, behind 4: %v, unattempted %d, waiting %d and %d, oldest %d",
			l.Finished(), l.ledger.FirstOutcome(), three, four, l.ledger.Unattempted(), l.ledger.WaitingCalls(2), l.ledger.WaitingCalls(3), max(0, ledgers[0].OldestPending.UnixMilli()))
		if got != want {
			t.Errorf("\n got %s\nwant %s", got, want)
		}
	}
	for i, m := range []*record.Calls{
		{Kind: record.KindAttach, Name: "crm"},
		{Kind: record.KindAttach, Name: "mail", Control: record.Control{Sources: []string{"web"}}},
		{Kind: record.KindCalls, Name: "web", Calls: 3},
		{Kind: record.KindCalls, Name: "ios", Calls: 2},
	} {
		m.Seq = uint64(i + 1)
		l.ReadCalls(m)
	}
	check("finished 2, first outcome 1, behind 3: [], behind 4: [crm mail], unattempted 8, waiting 0 and 0, oldest 0")
	end(record.Outcome{Destination: "crm", Ref: record.Ref{Seq: 3}, Attempt: 1, Delivered: 1, Again: []int{0, 2}})
	check("finished 2, first outcome 1, behind 3: [], behind 4: [crm mail], unattempted 5, waiting 0 and 2, oldest 3")
	end(record.Outcome{Destination: "mail", Ref: record.Ref{Seq: 3}, Attempt: 1, Delivered: 3})
	check("finished 2, first outcome 1, behind 3: [], behind 4: [crm], unattempted 2, waiting 0 and 2, oldest 3")
	end(record.Outcome{Destination: "crm", Ref: record.Ref{Seq: 4}, Attempt: 1, Low: 5, Again: []int{0, 1}})
	check("finished 2, first outcome 1, behind 3: [], behind 4: [crm], unattempted 0, waiting 0 and 2, oldest 3")
	end(record.Outcome{Destination: "crm", Ref: record.Ref{Seq: 3}, Attempt: 2, Delivered: 2})
	check("finished 3, first outcome 3, behind 3: [], behind 4: [], unattempted 0, waiting 0 and 0, oldest 4")
	end(record.Outcome{Destination: "crm", Ref: record.Ref{Seq: 4}, Attempt: 2, Delivered: 2})
	check("finished 4, first outcome 6, behind 3: [], behind 4: [], unattempted 0, waiting 0 and 0, oldest 0")
	l.ReadCalls(&record.Calls{Seq: 5, Kind: record.KindReplay, Name: "crm", Calls: 2, Control: record.Control{From: uint8(tracking.StateDelivered), Oldest: 3}})
	check("finished 4, first outcome 6, behind 3: [], behind 4: [], unattempted 0, waiting 0 and 0, oldest 3")
}

func TestFloorsAdvance(t *testing.T) {
	l := NewLive(New())
	l.ReadCalls(&record.Calls{Seq: 1, Kind: record.KindAttach, Name: "crm"})
	l.ReadCalls(&record.Calls{Seq: 2, Kind: record.KindCalls, Name: "web", Calls: 1})
	l.ReadCalls(&record.Calls{Seq: 3, Kind: record.KindAttach, Name: "crm", Control: record.Control{Sources: []string{"ios"}}})
	a := l.ledger.Accounts["crm"]
	if _, unattempted := l.Ledgers(); l.CanAdvance("crm") || l.Finished() != 1 || !slices.Equal(l.Behind(3), []string{"crm"}) || !unattempted["crm"] {
		t.Error("the first attempt of message 2 has not finished")
	}
	end := record.Outcome{Destination: "crm", Attached: 1, Ref: record.Ref{Seq: 2}, Attempt: 1, Delivered: 1}
	if err := l.ReadOutcomes(t.Context(), &record.Outcomes{Seq: 1, All: []record.Outcome{end}}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		advance func()
		want    string
	}{
		{func() {}, "floor 1, true, sources []"},
		{func() { l.Advance("crm", 9, 2) }, "floor 1, true, sources []"}, // attached again in the meantime
		{func() { l.Advance("crm", 1, 2) }, "floor 2, false, sources []"},
		{func() { l.Advance("crm", 1, 1) }, "floor 2, false, sources []"},
		{func() { l.Advance("crm", 1, 9) }, "floor 3, false, sources [ios]"}, // message 4 is not read yet
		{func() { l.ledger.Finish(4) }, "floor 4, false, sources [ios]"},
	} {
		c.advance()
		if got := fmt.Sprintf("floor %d, %t, sources %v", a.Floor, l.CanAdvance("crm"), a.Sources()); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

func TestScopesApplyToLaterMessages(t *testing.T) {
	a := &Account{Scopes: []scope{{after: 2, Sources: []string{"web", "ios"}}, {after: 5, Sources: []string{"web", "api"}}}}
	for _, c := range []struct {
		seq    uint64
		source string
		want   bool
	}{{2, "web", false}, {3, "web", true}, {5, "ios", true}, {6, "ios", false}, {6, "api", true}, {5, "api", false}} {
		if a.Takes(c.seq, c.source) != c.want {
			t.Errorf("message %d of %s: want %t", c.seq, c.source, c.want)
		}
	}
	if got := a.Sources(); !slices.Equal(got, []string{"api", "ios", "web"}) {
		t.Errorf("got %v", got)
	}
	a.Scopes[0].Sources = nil
	if a.Sources() != nil || !a.Takes(3, "any") {
		t.Error("an empty scope does not take all sources")
	}
}

func TestLaterBaseHasReadOrRemovedMore(t *testing.T) {
	l := &Ledger{Calls: 2, Purged: 1}
	for _, c := range []struct {
		before *Ledger
		want   bool
	}{{&Ledger{Calls: 2, Purged: 1}, false}, {&Ledger{Calls: 1, Purged: 1}, true}, {&Ledger{Calls: 2}, true}, {&Ledger{Calls: 3, Purged: 2}, false}} {
		if l.IsAfter(c.before) != c.want {
			t.Errorf("after message %d of CALLS, %d removed: want %t", c.before.Calls, c.before.Purged, c.want)
		}
	}
}
