package ledger

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/s2"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// testLedger returns a ledger with every kind of data.
func testLedger() *Live {
	l := NewLive(New())
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
		l.ReadCalls(m)
	}
	_ = l.ReadOutcomes(context.Background(), &record.Outcomes{Seq: 1, All: []record.Outcome{
		{Destination: "crm", Attached: 1, Ref: record.Ref{Seq: 3, Part: 1}, Attempt: 1, Delivered: 100, Again: []int{129, 133}, Due: time.Unix(5, 0), Accepted: time.Unix(4, 0), Filtered: 26},
		{Destination: "crm", Attached: 1, Ref: record.Ref{Seq: 7, Part: 0}, Attempt: 1, Delivered: 5},
	}})
	l.ledger.LostOutcomes = []record.Span{{First: 2, Last: 3}}
	return l
}

func TestEncodeAndDecode(t *testing.T) {
	live := testLedger()
	a := live.ledger
	b, err := Decode(live.Encode())
	if err != nil {
		t.Fatal(err)
	}
	ledgers, _ := live.Ledgers()
	for _, l := range ledgers {
		if !l.Holds() {
			t.Errorf("%+v", l)
		}
	}
	for name := range a.Accounts {
		if !reflect.DeepEqual(a.Accounts[name], b.Accounts[name]) {
			t.Errorf("got %+v\nwant %+v", b.Accounts[name], a.Accounts[name])
		}
	}
	if len(a.Accounts) != len(b.Accounts) || a.Calls != b.Calls || a.Outcomes != b.Outcomes ||
		!reflect.DeepEqual(a.LostCalls, b.LostCalls) || !reflect.DeepEqual(a.LostOutcomes, b.LostOutcomes) || len(a.toAll) != len(b.toAll) {
		t.Fatalf("got %+v\nwant %+v", b, a)
	}
}

func TestDecompress(t *testing.T) {
	l := testLedger()
	a, err := Decompress(s2.Encode(nil, l.Encode()))
	if err != nil || !reflect.DeepEqual(l.ledger.Accounts, a.Accounts) {
		t.Errorf("got %+v and %v, want %+v", a, err, l.ledger)
	}
	if _, err := Decompress([]byte("no data")); err == nil {
		t.Error("Decompress returned no error")
	}
}

func TestDecodeReportsCorruption(t *testing.T) {
	withoutScopes := New()
	withoutScopes.Accounts["crm"] = newAccount("crm")
	data := testLedger().Encode()
	for name, data := range map[string][]byte{
		"no data": nil, "another format": append([]byte{checkpointFormat + 1}, data[1:]...),
		"too long": append(data, 0), "too short": data[:len(data)-1], "an account without scopes": withoutScopes.Encode(),
	} {
		if _, err := Decode(data); err == nil {
			t.Errorf("%s: Decode returned no error", name)
		}
	}
}

func FuzzAccount(f *testing.F) {
	f.Add(testLedger().Encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		if l, err := Decode(data); err == nil {
			if _, err := Decode(l.Encode()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A process can read a replay before it reads that the calls have failed.
func TestReplayIsReadBeforeTheOutcome(t *testing.T) {
	l := NewLive(New())
	l.ReadCalls(&record.Calls{Seq: 1, Kind: record.KindAttach, Name: "crm"})
	l.ReadCalls(&record.Calls{Seq: 2, Kind: record.KindCalls, Name: "web", Calls: 3})
	l.ReadCalls(&record.Calls{Seq: 3, Kind: record.KindReplay, Name: "crm", Calls: 2, At: time.Unix(9, 0), Control: record.Control{From: uint8(tracking.StateFailed), Oldest: 8000}})
	check := func(want tracking.Ledger) {
		t.Helper()
		ledgers, _ := l.Ledgers()
		want.Destination, want.OldestPending = "crm", ledgers[0].OldestPending
		if ledgers[0] != want || !want.Holds() {
			t.Errorf("got %+v, want %+v", ledgers[0], want)
		}
	}
	check(tracking.Ledger{Accepted: 3, Pending: 3})
	failed := []record.Failure{{Place: 0}, {Place: 1}}
	_ = l.ReadOutcomes(t.Context(), &record.Outcomes{Seq: 1, All: []record.Outcome{{Destination: "crm", Attached: 1, Ref: record.Ref{Seq: 2}, Attempt: 1, Delivered: 1, Failed: failed}}})
	check(tracking.Ledger{Accepted: 3, Delivered: 1, Pending: 2})
	for seq := range uint64(2) { // another process repeats the outcome of the replay
		_ = l.ReadOutcomes(t.Context(), &record.Outcomes{Seq: 2 + seq, All: []record.Outcome{{Destination: "crm", Attached: 1, Ref: record.Ref{Seq: 3}, Attempt: 1, Delivered: 2}}})
		check(tracking.Ledger{Accepted: 3, Delivered: 3})
	}
}

// TestAccountTakesEachOutcomeOnce applies outcomes in all possible orders, and repeats them.
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
		a := NewLive(New())
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

func TestMessagesReadTwiceCountOnce(t *testing.T) {
	l := testLedger()
	want, _ := l.Ledgers()
	l.ReadCalls(&record.Calls{Seq: 8, Kind: record.KindCalls, Name: "web", Calls: 7})
	for _, seq := range []uint64{2, 2, 1} {
		read := []record.Outcome{{Destination: "mail", Attached: 2, Ref: record.Ref{Seq: 5}, Attempt: 1, Delivered: 10}}
		if seq == 1 {
			read[0].Ref.Seq = 3
		}
		if err := l.ReadOutcomes(t.Context(), &record.Outcomes{Seq: seq, All: read}); err != nil {
			t.Fatal(err)
		}
	}
	want[1].Delivered, want[1].Pending = 10, want[1].Pending-10
	if got, _ := l.Ledgers(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if calls, outcomes := l.Position(); calls != 8 || outcomes != 2 {
		t.Errorf("the ledger has read %d messages of CALLS and %d of OUTCOMES", calls, outcomes)
	}
}

func TestDetachedDestinationsAreNotCounted(t *testing.T) {
	l := testLedger()
	l.ReadCalls(&record.Calls{Seq: 9, Kind: record.KindDetach, Name: "crm"})
	l.ReadCalls(&record.Calls{Seq: 10, Kind: record.KindCalls, Name: "web", Calls: 1})
	ledgers, unattempted := l.Ledgers()
	if len(ledgers) != 1 || ledgers[0].Destination != "mail" || ledgers[0].Accepted != 311 || !unattempted["mail"] || unattempted["crm"] {
		t.Errorf("%+v %v", ledgers, unattempted)
	}
	if !l.With("mail", func(*Account) {}) || l.With("crm", func(*Account) {}) {
		t.Error("With does not know the attached destinations")
	}
	if len(l.ledger.toAll) != 1 || !l.IsLostCall(record.Span{First: 8, Last: 8}) || l.IsLostCall(record.Span{First: 8, Last: 9}) {
		t.Errorf("%+v", l.ledger)
	}
}

func TestCallSetContainsEachPlaceOfItsPart(t *testing.T) {
	ref := record.Ref{Seq: 1, Part: 1}
	others := []int{record.PartCalls - 1, 2 * record.PartCalls}
	for i := range record.PartCalls {
		places := []int{record.PartCalls + i}
		if got := setOf(ref, append(others, places...)).Places(ref); !slices.Equal(got, places) {
			t.Fatalf("got %v, want %v", got, places)
		}
	}
}

// TestReadersAwaitBothStreams reads an outcome of a message that is not read yet.
func TestReadersAwaitBothStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLive(New())
		l.ReadCalls(&record.Calls{Seq: 1, Kind: record.KindAttach, Name: "crm"})
		id, counted := record.WriteID{Writer: 1, Number: 2}, make(chan []bool, 2)
		l.Expect(id, counted)
		var done []string
		ended := make(chan string, 6)
		wait := func(name string, f func() error) {
			go func() {
				if err := f(); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				ended <- name
			}()
			synctest.Wait()
		}
		outcome := record.Outcome{Destination: "crm", Attached: 1, Ref: record.Ref{Seq: 3}, Attempt: 1, Delivered: 2}
		wait("both", func() error { return l.Reached(t.Context(), 1, 1) })
		wait("calls", func() error { return l.Reached(t.Context(), 3, 0) })
		wait("beyond", func() error {
			beyond, err := l.ReadUpTo(t.Context(), 1, 1)
			if beyond != 3 {
				t.Errorf("ReadUpTo returned %d", beyond)
			}
			return err
		})
		wait("not beyond", func() error {
			beyond, err := l.ReadUpTo(t.Context(), 3, 1)
			if beyond != 0 {
				t.Errorf("ReadUpTo returned %d", beyond)
			}
			return err
		})
		check := func(want ...string) {
			t.Helper()
			synctest.Wait()
			for len(ended) > 0 {
				done = append(done, <-ended)
			}
			if slices.Sort(done); !slices.Equal(done, want) {
				t.Errorf("got %v, want %v", done, want)
			}
		}
		check()
		wait("outcome", func() error {
			return l.ReadOutcomes(t.Context(), &record.Outcomes{Seq: 1, ID: id, All: []record.Outcome{outcome, outcome}})
		})
		check("beyond")
		l.ReadCalls(&record.Calls{Seq: 2, Kind: record.KindCalls, Name: "web", Calls: 9})
		check("beyond")
		l.ReadCalls(&record.Calls{Seq: 3, Kind: record.KindCalls, Name: "web", Calls: 2})
		check("beyond", "both", "calls", "not beyond", "outcome")
		if got := <-counted; !slices.Equal(got, []bool{true, false}) {
			t.Errorf("got %v", got)
		}
		wait("again", func() error {
			return l.ReadOutcomes(t.Context(), &record.Outcomes{Seq: 2, ID: id, All: []record.Outcome{outcome}})
		})
		l.Expect(id, counted)
		l.Forget(id)
		wait("forgotten", func() error {
			return l.ReadOutcomes(t.Context(), &record.Outcomes{Seq: 3, ID: id, All: []record.Outcome{outcome}})
		})
		if len(counted) != 0 {
			t.Error("the result of a write was sent twice")
		}
	})
}

func TestReadersEndIfReadingFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, failed := NewLive(New()), errors.New("failed")
		errs := make(chan error, 2)
		for _, wait := range []func() error{
			func() error { return l.Reached(t.Context(), 1, 0) },
			func() error { _, err := l.ReadUpTo(t.Context(), 1, 1); return err },
		} {
			go func() { errs <- wait() }()
		}
		synctest.Wait()
		ctx, cancel := context.WithCancelCause(t.Context())
		canceled := errors.New("canceled")
		cancel(canceled)
		if err := l.Reached(ctx, 1, 0); err != canceled {
			t.Errorf("got %v", err)
		}
		l.Fail(failed)
		for range cap(errs) {
			if err := <-errs; err != failed {
				t.Errorf("got %v", err)
			}
		}
	})
}
