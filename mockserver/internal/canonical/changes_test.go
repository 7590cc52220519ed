package canonical

import (
	"reflect"
	"strings"
	"testing"
)

func TestChanges(t *testing.T) {
	tests := []struct {
		doc  string
		want []Change
	}{
		{`{"a":[1,2.50,"x"],"b":{"c":null}}`, nil},
		{`{"a":1.0,"b":-0,"c":1e2,"d":100000000000000000000,"e":9007199254740992,"f":0.1,"g":1E-7,"h":0.10e1}`, nil},
		{`{"a":"\u0041\/","b":"\n"}`, nil},
		{`9007199254740993`, []Change{{"", ChangePrecision, "9007199254740993", "9007199254740992"}}},
		{`{"properties":{"order id":[0,-12345678901234567890]}}`,
			[]Change{{`properties["order id"][1]`, ChangePrecision, "-12345678901234567890", "-12345678901234567000"}}},
		{`{"a":0.1234567890123456789,"b":1e-400}`, []Change{
			{"a", ChangePrecision, "0.1234567890123456789", "0.12345678901234568"}, {"b", ChangePrecision, "1e-400", "0"}}},
		{`[1e400,[-2E999]]`, []Change{{"[0]", ChangeOverflow, "1e400", "null"}, {"[1][0]", ChangeOverflow, "-2E999", "null"}}},
		{`{"a":{"x": 1},"b":{"c":2,"c":3},"\u0061":4,"a":5}`, []Change{
			{"b.c", ChangeDuplicate, "2", ""}, {"a", ChangeDuplicate, `{"x":1}`, ""}, {"a", ChangeDuplicate, "4", ""}}},
		{`{"t":{"b":1,"2":2,"10":3,"1":4}}`, []Change{{"t", ChangeOrder, "", ""}}},
		{`{"1":{"9":1,"8":2},"0":1}`, []Change{{`["1"]`, ChangeOrder, "", ""}, {"", ChangeOrder, "", ""}}},
		{"{\"a\":\"x\xe2\x82y\xff\"}", []Change{
			{"a", ChangeInvalidUTF8, `"\xe2\x82"`, "\"\uFFFD\""}, {"a", ChangeInvalidUTF8, `"\xff"`, "\"\uFFFD\""}}},
		{`{"a":["\uD83D\uDE00\uD83D"]}`, []Change{{"a[0]", ChangeLoneSurrogate, `\uD83D`, ""}}},
		{`{"a":1e400,`, nil},
	}
	for _, tt := range tests {
		if got := Changes([]byte(tt.doc)); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", tt.doc, got, tt.want)
		}
	}
}

func TestChangesLimit(t *testing.T) {
	doc := "[" + strings.Repeat("1e400,", 10_000) + "9" + strings.Repeat("8", 10_000) + "]"
	if got := Changes([]byte(doc)); len(got) != maxChanges {
		t.Errorf("%d changes, want %d", len(got), maxChanges)
	}
	got := Changes([]byte("9" + strings.Repeat("8", 300)))
	if len(got) != 1 || len(got[0].From) != 64 {
		t.Errorf("got %+v", got)
	}
}

func TestSameNumber(t *testing.T) {
	same := [][2]string{
		{"0", "-0"}, {"0.00e5", "0"}, {"1", "1.000"}, {"100", "1e2"}, {"0.1", "1e-1"}, {"-2.50", "-25e-1"},
		{"123e19", "1230000000000000000000"}, {"0e99999999999999999999", "0"},
	}
	for _, p := range same {
		if !SameNumber([]byte(p[0]), []byte(p[1])) {
			t.Errorf("%s and %s should be the same", p[0], p[1])
		}
	}
	different := [][2]string{{"0", "1"}, {"1", "-1"}, {"10", "1"}, {"1e5", "1e6"}, {"1.01", "1.1"}, {"1e-99999999999999999999", "0"}}
	for _, p := range different {
		if SameNumber([]byte(p[0]), []byte(p[1])) {
			t.Errorf("%s and %s should differ", p[0], p[1])
		}
	}
}
