package jetstream

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
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
	f.Add((&retryRecord{ref: callsRef{7, 1}, attempt: 2, places: []int{129}, notes: []string{"b"}, decided: time.Unix(1, 0), due: time.Unix(2, 0)}).encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		it, err := decodeRetry(data)
		if err != nil {
			return
		}
		if again, err := decodeRetry(it.encode()); err != nil || !reflect.DeepEqual(it, again) {
			t.Fatalf("got %+v, want %+v; %v", again, it, err)
		}
	})
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
