package ledger

import (
	"slices"
	"testing"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// recount reads messages into a ledger and a recount, changes the recount, and compares them.
func recount(t *testing.T, outcomes []record.Outcome, change func(*Recount)) (problems map[string][]string, all []journal.Verification) {
	calls := []*record.Calls{
		{Kind: record.KindAttach, Name: "crm"},
		{Kind: record.KindAttach, Name: "mail", Control: record.Control{Sources: []string{"web"}}},
		{Kind: record.KindAttach, Name: "old"},
		{Kind: record.KindCalls, Name: "web", Calls: 3},
		{Kind: record.KindCalls, Name: "ios", Calls: 200},
		{Kind: record.KindAttach, Name: "mail", Control: record.Control{Sources: []string{"ios"}}},
		{Kind: record.KindCalls, Name: "ios", Calls: 1},
		{Kind: record.KindDetach, Name: "old"},
		{Kind: record.KindReplay, Name: "old", Calls: 1, Control: record.Control{From: uint8(tracking.StateDelivered)}},
		{Kind: record.KindReplay, Name: "crm", Calls: 2, Control: record.Control{From: uint8(tracking.StateFailed)}},
		{Kind: record.KindLost, Name: "none", Control: record.Control{First: 12, Last: 12}},
	}
	l := NewLive(New())
	for i, m := range calls {
		m.Seq, m.At, m.Oldest = uint64(i+1), time.UnixMilli(int64(i+1)), 1
		l.ReadCalls(m)
	}
	if err := l.ReadOutcomes(t.Context(), &record.Outcomes{Seq: 1, All: outcomes}); err != nil {
		t.Fatal(err)
	}
	r := NewRecount(New(), l.State(map[string]uint64{"crm": 7}))
	if r.Now.Tried["crm"] != (triedTo{Floor: 3, Acknowledged: 7}) {
		t.Errorf("got %+v", r.Now.Tried)
	}
	for _, m := range calls {
		r.Accept(m)
	}
	for i := range outcomes {
		r.Count(&outcomes[i])
	}
	addPending(r)
	change(r)
	problems = map[string][]string{}
	all = r.Compare()
	for _, v := range all {
		problems[v.Destination] = v.Problems
	}
	return problems, all
}

func TestRecountFindsDifferences(t *testing.T) {
	failed := func(places ...int) (all []record.Failure) {
		for _, p := range places {
			all = append(all, record.Failure{Place: p})
		}
		return all
	}
	outcomes := []record.Outcome{
		{Destination: "crm", Attached: 1, Ref: record.Ref{Seq: 4}, Attempt: 1, Failed: failed(0, 1, 2)},
		{Destination: "crm", Attached: 1, Ref: record.Ref{Seq: 5, Part: 1}, Attempt: 1, Delivered: 70, Filtered: 1, Again: []int{128}, Accepted: time.UnixMilli(5)},
		{Destination: "crm", Attached: 1, Ref: record.Ref{Seq: 5, Part: 1}, Attempt: 1, Delivered: 72},
		{Destination: "crm", Attached: 1, Ref: record.Ref{Seq: 10}, Attempt: 2, Delivered: 2},
		{Destination: "crm", Attached: 1, Ref: record.Ref{Seq: 10}, Attempt: 1, Delivered: 2},
		{Destination: "mail", Attached: 2, Ref: record.Ref{Seq: 7}, Attempt: 1, Delivered: 1},
		{Destination: "mail", Attached: 1, Ref: record.Ref{Seq: 4}, Attempt: 1, Delivered: 3},
		{Destination: "old", Attached: 3, Ref: record.Ref{Seq: 4}, Attempt: 1, Delivered: 3},
	}
	same := func(*Recount) {}
	problems, all := recount(t, outcomes, func(r *Recount) {
		if len(r.Accounts["crm"].Waiting) != 1 || len(r.Accounts["mail"].Waiting) != 0 {
			t.Error("one part waits for a retry")
		}
	})
	if len(problems) != 2 || len(problems["crm"])+len(problems["mail"]) > 0 {
		t.Errorf("%v", problems)
	}
	want := tracking.Ledger{Destination: "crm", Accepted: 204, Delivered: 72, Failed: 1, Filtered: 1, Pending: 130, OldestPending: time.UnixMilli(5)}
	if all[0].Ledger != want || !want.Holds() {
		t.Errorf("got %+v, want %+v", all[0].Ledger, want)
	}

	for _, c := range []struct {
		name        string
		outcomes    []record.Outcome
		change      func(*Recount)
		destination string
		want        string
	}{
		{"fewer calls than leased", append(slices.Clone(outcomes), record.Outcome{Destination: "mail", Attached: 2, Ref: record.Ref{Seq: 4}, Attempt: 1, Delivered: 2}), same, "mail",
			"message 4 of CALLS, part 0, attempt 1: the outcome has 2 calls, but 3 were leased"},
		{"another total", outcomes, func(r *Recount) { r.Accounts["crm"].Delivered++ }, "crm",
			"the ledger contains 204 = 72 delivered + 1 failed + 1 filtered + 130 pending + 0 lost, but the stored data contains 204 = 73 delivered + 1 failed + 1 filtered + 130 pending + 0 lost"},
		{"missing in the data", outcomes, func(r *Recount) { delete(r.Accounts, "crm") }, "crm", "this destination is missing in the stored data"},
		{"missing in the ledger", outcomes, func(r *Recount) {
			r.Accounts["new"] = newRecounted(tracking.Ledger{Destination: "new"}, 1, nil)
		}, "new", "this destination is missing in the ledger"},
	} {
		problems, _ := recount(t, c.outcomes, c.change)
		if got := problems[c.destination]; len(got) == 0 || got[0] != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
		if delete(problems, c.destination); len(problems["crm"])+len(problems["mail"]) > 0 {
			t.Errorf("%s: got %q", c.name, problems)
		}
	}
}

func TestRecountKeepsTheFirstProblems(t *testing.T) {
	a := newRecounted(tracking.Ledger{}, 1, nil)
	for i := range 101 {
		a.Problem("%d", i)
	}
	if len(a.Problems) != 100 || a.Problems[99] != "99" {
		t.Errorf("%d problems", len(a.Problems))
	}
}

func TestRecountFindsTheOldestPendingCall(t *testing.T) {
	a := newRecounted(tracking.Ledger{}, 1, nil)
	for _, ms := range []int64{5, 3, 4} {
		a.AddPending(2, time.UnixMilli(ms))
	}
	if a.Pending != 6 || !a.OldestPending.Equal(time.UnixMilli(3)) {
		t.Errorf("%+v", a.Ledger)
	}
}
