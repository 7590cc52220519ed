package journal

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

func TestTokens(t *testing.T) {
	for name, want := range map[string]string{
		"web": "web", "": "=", "a b": "a=20b", "x.y": "x=2Ey", ">": "=3E", "*": "=2A", "=": "=3D", "é": "=C3=A9", "a=20b": "a=3D20b",
	} {
		got := token(name)
		if back, err := untoken(got); got != want || back != name || err != nil {
			t.Errorf("token(%q) = %q, want %q; back %q, %v", name, got, want, back, err)
		}
	}
	for _, bad := range []string{"a=", "a=2", "=zz"} {
		if name, err := untoken(bad); err == nil {
			t.Errorf("untoken(%q) = %q, want an error", bad, name)
		}
	}
}

func TestNamesOfConsumersAreShort(t *testing.T) {
	n := names{"analytics"}
	long := strings.Repeat("long ", 100)
	if a, b := n.consumer(long+"a"), n.consumer(long+"b"); len(a) > 150 || a == b {
		t.Errorf("%q and %q", a, b)
	}
	if a, b := n.consumer("d=x"), n.consumer("=x"); a == b {
		t.Errorf("both are %q", a)
	}
}

func TestSubjectsAndPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, subject string
		want             bool
	}{
		{"a.b", "a.b", true}, {"a.b", "a.c", false}, {"a", "a.b", false}, {"a.b", "a", false},
		{"a.*", "a.b", true}, {"a.*", "a.b.c", false}, {"a.*", "a", false}, {"*.b", "a.b", true},
		{"a.>", "a.b.c", true}, {"a.>", "a", false}, {">", "a.b", true},
	} {
		if got := matches(c.pattern, c.subject); got != c.want {
			t.Errorf("matches(%q, %q) = %v", c.pattern, c.subject, got)
		}
	}
}

func TestVersions(t *testing.T) {
	for version, want := range map[string]bool{
		"2.15.0": true, "2.15.2": true, "v2.15.1": true, "3.0.0": true, "2.15.0-beta.1": true,
		"2.14.5": false, "1.99.0": false, "": false, "x.y": false,
	} {
		if got := atLeast(version, minServer); got != want {
			t.Errorf("atLeast(%q) = %v", version, got)
		}
	}
}

func FuzzIDs(f *testing.F) {
	f.Add("a", "b,c", "d%2Ce f\n")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		want := []string{"x" + a, "x" + b, "x" + c} // ids are not empty
		header := string(appendIDs(nil, want))
		if strings.ContainsAny(header, " \r\n\t") {
			t.Fatalf("%q is no header", header)
		}
		var got []string
		eachID(header, func(id string) bool { got = append(got, id); return true })
		if !slices.Equal(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}

func FuzzCalls(f *testing.F) {
	f.Add(appendSegment([]byte{callsFormat}, [][]byte{[]byte("{}"), []byte(`{"type":"track"}`)}))
	f.Add([]byte{callsFormat, 0x80})
	f.Fuzz(func(t *testing.T, payload []byte) {
		bodies, err := decodeCalls(payload)
		if err != nil {
			return
		}
		again, err := decodeCalls(appendSegment([]byte{callsFormat}, bodies))
		if err != nil || !reflect.DeepEqual(bodies, again) && len(bodies)+len(again) > 0 {
			t.Fatalf("got %q, want %q; %v", again, bodies, err)
		}
	})
}

var anOutcome = outcome{
	destination: "crm", attached: 3, ref: callsRef{7, 2}, attempt: 4, low: 6, delivered: 2, filtered: 1,
	again: []int{256, 258, 300}, notes: []string{"a", "", "b"}, decided: time.Unix(0, 3), due: time.Unix(1, 5), accepted: time.Unix(0, 7),
	failed: []failure{{257, "gone"}, {260, "gone"}, {261, "no"}},
}

func FuzzOutcomes(f *testing.F) {
	one := anOutcome.append(nil)
	data := newOutcomes(writeID{1, 2})
	f.Add(append(append(data, byte(len(one))), one...))
	f.Fuzz(func(t *testing.T, data []byte) {
		id, outcomes, err := decodeOutcomes(data)
		if err != nil {
			return
		}
		again := newOutcomes(id)
		for i := range outcomes {
			again = appendText(again, string(outcomes[i].append(nil)))
		}
		_, decoded, err := decodeOutcomes(again)
		if err != nil || !reflect.DeepEqual(outcomes, decoded) {
			t.Fatalf("got %+v, want %+v; %v", decoded, outcomes, err)
		}
	})
}

func FuzzRetry(f *testing.F) {
	f.Add(encodeRetry(retryItem(&anOutcome)))
	f.Fuzz(func(t *testing.T, data []byte) {
		it, err := decodeRetry(data)
		if err != nil {
			return
		}
		if again, err := decodeRetry(encodeRetry(it)); err != nil || !reflect.DeepEqual(it, again) {
			t.Fatalf("got %+v, want %+v; %v", again, it, err)
		}
	})
}

// anAccount has something of everything.
func anAccount() *account {
	a := newAccount()
	for _, m := range []*callsMessage{
		{seq: 1, kind: kindAttach, name: "crm"},
		{seq: 2, kind: kindAttach, name: "mail", sources: []string{"ios", "web"}},
		{seq: 3, kind: kindCalls, name: "web", calls: 300},
		{seq: 4, kind: kindAttach, name: "mail"},
		{seq: 5, kind: kindCalls, name: "web", calls: 10},
		{seq: 6, kind: kindReplay, name: "crm", calls: 2, from: tracking.StateDelivered, at: time.Unix(9, 0), oldest: time.Unix(8, 0)},
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

// TestBlocksAreReadAsTheServerWritesThem holds what is known of the server's files
// against the server that is used: a change of their format fails here.
func TestBlocksAreReadAsTheServerWritesThem(t *testing.T) {
	dir := t.TempDir()
	j, err := Open(t.Context(), Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		m := nats.NewMsg(j.names.subject("s", "test", fmt.Sprint(i%20))) // some replace others
		m.Data = bytes.Repeat([]byte{byte(i)}, 10*i)
		m.Header.Set("A", strings.Repeat("b", i)) // without headers the length of the subject is not covered
		if _, err := j.publish(t.Context(), j.nc, m); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	stream := filepath.Join(dir, storeDir, "$G", "streams", j.names.stream(streamState))
	blocks, err := blocksOf(stream)
	if err != nil || len(blocks) == 0 {
		t.Fatalf("blocks %v, %v", blocks, err)
	}
	for _, b := range blocks {
		data, err := os.ReadFile(filepath.Join(stream, "msgs", fmt.Sprintf("%d.blk", b)))
		if err != nil {
			t.Fatal(err)
		}
		h := newBlockHash(filepath.Base(stream), b)
		if found, _ := checkBlock(data, h); len(found) > 0 {
			t.Fatalf("block %d: %v", b, found)
		}
		for at := range data {
			bad := bytes.Clone(data)
			bad[at] ^= 1
			if at%37 != 0 {
				continue
			}
			if found, _ := checkBlock(bad, h); len(found) != 1 {
				t.Errorf("byte %d was changed, and found were %v", at, found)
			}
		}
	}
}
