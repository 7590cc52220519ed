package record

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
		got := Token(name)
		if back, err := Untoken(got); got != want || back != name || err != nil {
			t.Errorf("token(%q) = %q, want %q; back %q, %v", name, got, want, back, err)
		}
	}
	for _, bad := range []string{"a=", "a=2", "=zz"} {
		if name, err := Untoken(bad); err == nil {
			t.Errorf("untoken(%q) = %q, want an error", bad, name)
		}
	}
}

func TestConsumerNamesAreShort(t *testing.T) {
	n := Names{"analytics"}
	long := strings.Repeat("long ", 100)
	if a, b := n.Consumer(long+"a"), n.Consumer(long+"b"); len(a) > 150 || a == b {
		t.Errorf("%q and %q", a, b)
	}
	if a, b := n.Consumer("d=x"), n.Consumer("=x"); a == b {
		t.Errorf("both are %q", a)
	}
}

func FuzzIDs(f *testing.F) {
	f.Add("a", "b,c", "d%2Ce f\n")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		want := []string{"x" + a, "x" + b, "x" + c} // IDs must not be empty
		header := string(AppendIDs(nil, want))
		if strings.ContainsAny(header, " \r\n\t") {
			t.Fatalf("%q is no header", header)
		}
		if got := slices.Collect(EachID(header)); !slices.Equal(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}

func FuzzCalls(f *testing.F) {
	f.Add(AppendSegment([]byte{CallsFormat}, [][]byte{[]byte("{}"), []byte(`{"type":"track"}`)}))
	f.Add([]byte{CallsFormat, 0x80})
	f.Fuzz(func(t *testing.T, payload []byte) {
		bodies, err := DecodeCalls(payload)
		if err != nil {
			return
		}
		again, err := DecodeCalls(AppendSegment([]byte{CallsFormat}, bodies))
		if err != nil || !reflect.DeepEqual(bodies, again) && len(bodies)+len(again) > 0 {
			t.Fatalf("got %q, want %q; %v", again, bodies, err)
		}
	})
}

var anOutcome = Outcome{
	Destination: "crm", Attached: 3, Ref: Ref{7, 2}, Attempt: 4, Low: 6, Delivered: 2, Filtered: 1,
	Again: []int{256, 258, 300}, Notes: []string{"a", "", "b"}, Decided: time.Unix(0, 3), Due: time.Unix(1, 5), Accepted: time.Unix(0, 7),
	Failed: []Failure{{257, false, "gone"}, {260, true, "gone"}, {261, false, "no"}, {262, true, ""}},
}

func FuzzOutcomes(f *testing.F) {
	one := anOutcome.Append(nil)
	data := NewOutcomes(WriteID{1, 2})
	f.Add(append(append(data, byte(len(one))), one...))
	f.Fuzz(func(t *testing.T, data []byte) {
		id, outcomes, err := DecodeOutcomes(data)
		if err != nil {
			return
		}
		again := NewOutcomes(id)
		for i := range outcomes {
			again = AppendText(again, string(outcomes[i].Append(nil)))
		}
		_, decoded, err := DecodeOutcomes(again)
		if err != nil || !reflect.DeepEqual(outcomes, decoded) {
			t.Fatalf("got %+v, want %+v; %v", decoded, outcomes, err)
		}
	})
}

func FuzzRetry(f *testing.F) {
	f.Add((&Retry{Ref: Ref{7, 1}, Attempt: 2, Places: []int{129}, Notes: []string{"b"}, Decided: time.Unix(1, 0), Due: time.Unix(2, 0)}).Encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		it, err := DecodeRetry(data)
		if err != nil {
			return
		}
		if again, err := DecodeRetry(it.Encode()); err != nil || !reflect.DeepEqual(it, again) {
			t.Fatalf("got %+v, want %+v; %v", again, it, err)
		}
	})
}
