package jetstream

import (
	"context"
	"encoding/binary"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
)

// anAccount has something of everything.
func anAccount() *account {
	a := newAccount()
	for _, m := range []*callsMessage{
		{seq: 1, kind: kindAttach, name: "crm"},
		{seq: 2, kind: kindAttach, name: "mail", sources: []string{"ios", "web"}},
		{seq: 3, kind: kindCalls, name: "web", calls: 300},
		{seq: 4, kind: kindAttach, name: "mail"},
		{seq: 5, kind: kindCalls, name: "web", calls: 10},
		{seq: 6, kind: kindReplay, name: "crm", calls: 2, from: mockserver.StateDelivered, at: time.Unix(9, 0), oldest: time.Unix(8, 0)},
		{seq: 7, kind: kindLost, lost: span{7, 8}},
		{seq: 8, kind: kindLost, lost: span{7, 8}},
	} {
		a.readCalls(m)
	}
	_ = a.readOutcomes(context.Background(), 1, writeID{}, []outcome{
		{destination: "crm", attached: 1, ref: callsRef{3, 1}, attempt: 1, delivered: 100, again: []int{1, 5}, due: time.Unix(5, 0), accepted: time.Unix(4, 0), filtered: 26},
		{destination: "crm", attached: 1, ref: callsRef{7, 0}, attempt: 1, delivered: 5},
	})
	a.gone = []span{{2, 3}}
	return a
}

func TestAnAccountIsStoredWhole(t *testing.T) {
	a := anAccount()
	b, err := decodeAccount(a.encode())
	if err != nil {
		t.Fatal(err)
	}
	ledgers, _ := a.ledgers()
	for _, l := range ledgers {
		if !l.Holds() {
			t.Errorf("%+v", l)
		}
	}
	a.changed, b.changed, a.awaited = nil, nil, 0
	for name := range a.books {
		if !reflect.DeepEqual(a.books[name], b.books[name]) {
			t.Errorf("got %+v\nwant %+v", b.books[name], a.books[name])
		}
	}
	if len(a.books) != len(b.books) || a.calls != b.calls || a.outcomes != b.outcomes ||
		!reflect.DeepEqual(a.lost, b.lost) || !reflect.DeepEqual(a.gone, b.gone) || len(a.toAll) != len(b.toAll) {
		t.Fatalf("got %+v\nwant %+v", b, a)
	}
}

// TestOldAccountIsRead reads what the format before has, which knew no losses.
func TestOldAccountIsRead(t *testing.T) {
	data := appendNumbers([]byte{lossless}, 9, 4, 3, 1, 5, 6, 0, 1) // calls, outcomes, one lost span, none gone, one book
	data = appendText(data, "crm")
	for _, n := range []int64{20, 10, 1, 2, 4} {
		data = binary.AppendVarint(data, n)
	}
	data = appendNumbers(data, 1, 7, 3, 1, 1, 0)                                   // attached, since, floor, a scope of all sources
	data = appendNumbers(data, 1, 4, 1, 1, 40)                                     // a part that is done, one that is gone
	data = appendNumbers(data, 1, callsRef{7, 0}.number(), 2, 3, 1000, 2000, 3, 0) // a retry
	a, err := decodeAccount(data[:len(data)-1])
	if err != nil {
		t.Fatal(err)
	}
	b := a.books["crm"]
	want := retry{attempt: 2, calls: 3, due: 1000, accepted: 2000, outcome: 3}
	if l, _ := a.ledgers(); len(l) != 1 || !l[0].Holds() || l[0].Pending != 7 || l[0].Lost != 0 || b.retries[callsRef{7, 0}] != want || a.purged != 9 || len(b.losses) != 0 {
		t.Errorf("%+v, %+v", a, b)
	}
	if _, err := decodeAccount(data); err == nil {
		t.Error("what follows is no part of it")
	}
}

func FuzzAccount(f *testing.F) {
	f.Add(anAccount().encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		if a, err := decodeAccount(data); err == nil {
			if _, err := decodeAccount(a.encode()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestAccountTakesEachOutcomeOnce hands an account outcomes in all their orders
// and again.
func TestAccountTakesEachOutcomeOnce(t *testing.T) {
	first := outcome{destination: "d", attached: 1, ref: callsRef{2, 0}, attempt: 1, delivered: 2, again: []int{0}}
	second := outcome{destination: "d", attached: 1, ref: callsRef{2, 0}, attempt: 2, delivered: 1}
	other := outcome{destination: "d", attached: 9, ref: callsRef{2, 0}, attempt: 1, delivered: 3}
	wrong := outcome{destination: "d", attached: 1, ref: callsRef{2, 0}, attempt: 2, delivered: 2}
	for _, c := range []struct {
		outcomes []outcome
		want     string
	}{
		{[]outcome{first}, "3 = 2 + 0 + 0 + 1"},
		{[]outcome{first, first, second, first, second}, "3 = 3 + 0 + 0 + 0"},
		{[]outcome{second, other}, "3 = 0 + 0 + 0 + 3"},
		{[]outcome{first, wrong}, "3 = 2 + 0 + 0 + 1"},
	} {
		a := newAccount()
		a.readCalls(&callsMessage{seq: 1, kind: kindAttach, name: "d"})
		a.readCalls(&callsMessage{seq: 2, kind: kindCalls, name: "web", calls: 3})
		for i := range c.outcomes {
			if err := a.readOutcomes(t.Context(), uint64(i+1), writeID{}, c.outcomes[i:i+1]); err != nil {
				t.Fatal(err)
			}
		}
		ledgers, _ := a.ledgers()
		l := ledgers[0]
		if got := fmt.Sprintf("%d = %d + %d + %d + %d", l.Accepted, l.Delivered, l.Failed, l.Filtered, l.Pending); got != c.want {
			t.Errorf("%+v: %s, want %s", c.outcomes, got, c.want)
		}
	}
}
