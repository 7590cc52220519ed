package search

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
)

func TestParse(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       Query
		canonical  string // defaults to text
	}{
		{"nothing", " \t", nil, ""},
		{"words", "sku  B-17", Query{{Value: "sku"}, {Value: "B-17"}}, "sku B-17"},
		{"a phrase", `"out of stock"`, Query{{Value: "out of stock"}}, ""},
		{"a quoted field", `"event:x"`, Query{{Value: "event:x"}}, ""},
		{"an address", "https://shop.example/a:b", Query{{Value: "https://shop.example/a:b"}}, `"https://shop.example/a:b"`},
		{"a time of day", "12:30", Query{{Value: "12:30"}}, `"12:30"`},
		{"a host", "shop.example:443", Query{{Value: "shop.example:443"}}, `"shop.example:443"`},
		{"a file", "id.json", Query{{Value: "id.json"}}, `"id.json"`},
		{"all fields", `event:"Signed Up" user:ada status:failed type:track source:web prop.plan:Pro traits.city:Köln since:1h free text`, Query{
			{Field: "event", Value: "Signed Up"}, {Field: "user", Value: "ada"}, {Field: "status", Value: "failed"}, {Field: "type", Value: "track"}, {Field: "source", Value: "web"},
			{Field: "prop", Path: []string{"plan"}, Value: "Pro"}, {Field: "traits", Path: []string{"city"}, Value: "Köln"}, {Field: "since", Value: "1h"}, {Value: "free"}, {Value: "text"},
		}, ""},
		{"turned round", `-event:x -"a b" -c - d`, Query{{Not: true, Field: "event", Value: "x"}, {Not: true, Value: "a b"}, {Not: true, Value: "c"}, {Value: "-"}, {Value: "d"}}, `-event:x -"a b" -c "-" d`},
		{"names in quotes", `prop.cart."unit price".v:>=9.5`, Query{{Field: "prop", Path: []string{"cart", "unit price", "v"}, Op: OpAtLeast, Value: "9.5"}}, ""},
		{"exact match", `event:="Order" prop.a:=Pro`, Query{{Field: "event", Op: OpEqual, Value: "Order"}, {Field: "prop", Path: []string{"a"}, Op: OpEqual, Value: "Pro"}}, `event:=Order prop.a:=Pro`},
		{"a sign in quotes", `event:"=x" prop.a:"*"`, Query{{Field: "event", Value: "=x"}, {Field: "prop", Path: []string{"a"}, Value: "*"}}, ""},
		{"there is one", `prop.coupon:* -user:*`, Query{{Field: "prop", Path: []string{"coupon"}, Op: OpExists}, {Not: true, Field: "user", Op: OpExists}}, ""},
		{"nothing in quotes", `prop.plan:""`, Query{{Field: "prop", Path: []string{"plan"}}}, ""},
		{"escapes", `event:"a \"b\" \\ \c"`, Query{{Field: "event", Value: `a "b" \ \c`}}, `event:"a \"b\" \\ \\c"`},
		{"statuses", "status:404 status:5xx -status:none", Query{{Field: "status", Value: "404"}, {Field: "status", Value: "5xx"}, {Not: true, Field: "status", Value: "none"}}, ""},
		{"times", "since:2026-01-31 until:2026-01-31T12:00:00+01:00", Query{{Field: "since", Value: "2026-01-31"}, {Field: "until", Value: "2026-01-31T12:00:00+01:00"}}, ""},
		{"a value with a colon", "user:a:b", Query{{Field: "user", Value: "a:b"}}, ""},
	} {
		got, err := Parse(test.text)
		if err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: Parse(%q) = %+v, %v; want %+v", test.name, test.text, got, err, test.want)
			continue
		}
		want := test.canonical
		if want == "" {
			want = strings.TrimSpace(test.text)
		}
		if got.String() != want {
			t.Errorf("%s: String is %s, want %s", test.name, got, want)
		}
	}
}

func TestParseReportsPosition(t *testing.T) {
	for _, test := range []struct {
		name, text, problem, hint string
		at                        int
	}{
		{"an unknown field", "a evnt:x", `unknown field "evnt"`, "did you mean event:?", 3},
		{"a field like no other", "zebra:x", `unknown field "zebra"`, "use one of event, user,", 1},
		{"no value", "ä event: x", "event: has no value", `event:"Signed Up"`, 3},
		{"no member", "prop:Pro", "prop needs a field name", "prop.plan:Pro", 1},
		{"a member without a value", "prop.plan", "prop needs a value", "quote", 1},
		{"a point alone", "prop.:x", "missing name after the dot", `prop."unit price":9.5`, 6},
		{"an open quote", `user:"ada`, "unclosed quote", `close it with "`, 6},
		{"an open quote in a path", `prop."a:b`, "unclosed quote", `close it with "`, 6},
		{"text behind a quote", `user:"ada"x`, "missing space after the quote", "add a space", 11},
		{"empty quotes", `a ""`, "empty quotes", "add text between them", 3},
		{"an unknown status", "status:broken", `unknown status "broken"`, "delivered, pending", 8},
		{"a status beyond those of HTTP", "status:600", `unknown status "600"`, "404", 8},
		{"no time", "since:yesterday", `"yesterday" is not a time`, "UTC", 7},
		{"a negative age", "since:-5m", `is not a time`, "7d", 7},
		{"an age that is too long", "since:9999999w", `is not a time`, "7d", 7},
		{"a comparison with no number", "prop.total:>many", `"many" is not a number`, "prop.total:>100", 13},
		{"a comparison of texts", "user:>5", "user does not support >", "user:ada", 7},
		{"any status", "status:*", "status cannot be *", "status:failed", 8},
		{"an unknown choice", "is:mine", `is has no value "mine"`, "own or unplanned", 4},
		{"too many", strings.Repeat("a ", MaxTerms) + "b", "more than 32 conditions", "remove some", 2*MaxTerms + 1},
		{"too long", strings.Repeat("a", MaxBytes+1), "more than 2,000 bytes", "shorter", MaxBytes + 1},
		{"not UTF-8", "a\xff", "not valid UTF-8", "again", 1},
	} {
		_, err := Parse(test.text)
		var wrong *Error
		if !errors.As(err, &wrong) || !strings.Contains(wrong.Problem, test.problem) || !strings.Contains(wrong.Hint, test.hint) || wrong.At != test.at {
			t.Errorf("%s: the error of %q is %v; want %q at %d with %q", test.name, test.text, err, test.problem, test.at, test.hint)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{`-event:"Signed Up" prop."a b".c:>=1.5 x`, `status:4xx since:2026-01-31 "q\"`, "prop.a:* is:own -", "\u2028a:\u00a0b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		q, err := Parse(s)
		if err != nil {
			var wrong *Error
			if !errors.As(err, &wrong) || wrong.At < 1 || wrong.At > utf8.RuneCountInString(s)+1 || wrong.Problem == "" || wrong.Hint == "" {
				t.Fatalf("the error of %q is %#v", s, err)
			}
			return
		}
		written := q.String()
		again, err := Parse(written)
		if len(written) <= MaxBytes && (err != nil || !reflect.DeepEqual(again, q)) {
			t.Fatalf("%q is %+v; written %q, it is %+v, %v", s, q, written, again, err)
		}
		for _, term := range q {
			term.MatchesText(s)
			term.MatchesBody([]byte(s))
		}
	})
}

func FuzzComplete(f *testing.F) {
	for _, s := range []string{"", "ev", "prop.", "-status:f", `event:"si`, "a b prop.unit"} {
		f.Add(s)
	}
	known := Known{
		Values:  map[string][]string{"event": {"Signed Up", `a "b"`}},
		Members: func(fields.Field) [][]string { return [][]string{{"plan"}, {"unit price"}, {"a", "b"}} },
		Samples: func(fields.Field, []string) []string { return []string{"Pro", ">1", "*", ""} },
	}
	f.Fuzz(func(t *testing.T, s string) {
		head := s[:min(lastTerm(s), len(s))]
		if _, err := Parse(head); err != nil {
			return
		}
		for _, suggestion := range Complete(s, known) {
			if _, err := Parse(suggestion.Text); suggestion.Done && err != nil && utf8.ValidString(s) && len(suggestion.Text) <= MaxBytes && !strings.Contains(err.Error(), "conditions") {
				t.Fatalf("%q is completed to %q, which cannot be read: %v", s, suggestion.Text, err)
			}
		}
	})
}

func TestMatchesBody(t *testing.T) {
	const body = `{"type":"track","properties":{"plan":"Pro","total":129.50,"big":90071992547409931,"vip":true,"coupon":null,"unit price":9,
		"items":[{"sku":"B-17"},{"sku":"C-4","tags":["new","sale"]}],"none":[],"pl\u0061n2":"\u00c4"},"traits":{"plan":"Basic"},"context":{"library":{"name":"go"}}}`
	for term, want := range map[string]bool{
		"prop.plan:Pro": true, "prop.plan:pro": true, "prop.plan:=pro": false, "prop.plan:=Pro": true, "prop.plan:Pr": false,
		"prop.total:129.5": true, "prop.total:>129": true, "prop.total:>129.5": false, "prop.total:>=129.5": true, "prop.total:<1000": true, "prop.total:<=1": false,
		"prop.big:90071992547409931": true, "prop.big:90071992547409930": false, "prop.big:=90071992547409932": false, "prop.big:9.0071992547409931e16": true, "prop.big:>9007199254740993": true, "prop.vip:true": true, "prop.vip:1": false, "prop.coupon:null": true, "prop.coupon:*": true,
		`prop."unit price":9`: true, "prop.items.sku:C-4": true, "prop.items.tags:sale": true, "prop.items.tags:old": false, "prop.items:*": true, "prop.none:*": true, "prop.none:x": false,
		"prop.plan2:ä": true, "prop.absent:*": false, "prop.plan.deeper:*": false,
		"traits.plan:basic": true, "context.library.name:go": true, "context.library:go": false, "prop.plan:>1": false,
	} {
		q, err := Parse(term)
		if err != nil {
			t.Fatal(err)
		}
		if got := q[0].MatchesBody([]byte(body)); got != want {
			t.Errorf("%s is %v, want %v", term, got, want)
		}
	}
}

func TestMatchesText(t *testing.T) {
	for _, test := range []struct {
		term   string
		values []string
		want   bool
	}{
		{"event:PRIC", []string{"", "Pricing"}, true}, {"event:=PRIC", []string{"Pricing"}, false}, {"event:=Pricing", []string{"Pricing"}, true},
		{"event:pri*", []string{"", "Pricing"}, true}, {"event:ric*", []string{"Pricing"}, false}, {`event:"Order C*"`, []string{"Order Completed"}, true}, {"event:=Pri*", []string{"Pricing"}, false},
		{"user:*", []string{"", ""}, false}, {"user:*", []string{"", "a"}, true}, {"user:ada", nil, false},
	} {
		q, err := Parse(test.term)
		if err != nil {
			t.Fatal(err)
		}
		if got := q[0].MatchesText(test.values...); got != test.want {
			t.Errorf("%s and %q: %v", test.term, test.values, got)
		}
	}
}

func TestTime(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Time{
		"90s": now.Add(-90 * time.Second), "1h": now.Add(-time.Hour), "1h30m": now.Add(-90 * time.Minute), "2w": now.AddDate(0, 0, -14),
		"2026-01-30": now.Add(-36 * time.Hour), "2026-01-31T12:30": now.Add(30 * time.Minute),
		"2026-01-31 14:30 +0200":  now.Add(30 * time.Minute),
		"2026-01-31T12:30:15.250": now.Add(30*time.Minute + 15250*time.Millisecond), "2026-01-31T13:30+01:00": now.Add(30 * time.Minute),
	} {
		if got := (Term{Field: "since", Value: value}).Time(now); !got.Equal(want) {
			t.Errorf("%s is %v, want %v", value, got, want)
		}
	}
	for text, want := range map[string]bool{"since:1h": true, "until:5m a": true, "since:2026-01-30": false, "1h": false} {
		if q, _ := Parse(text); q.HasRelativeTime() != want {
			t.Errorf("%s: %v", text, !want)
		}
	}
}

func TestFixedUsesAbsoluteTimes(t *testing.T) {
	q, err := Parse("a since:1h until:2026-01-31")
	if err != nil {
		t.Fatal(err)
	}
	fixed := q.Fixed(time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC))
	if got := fixed.String(); got != "a since:2026-01-31T11:00:00.000Z until:2026-01-31" || q[1].Value != "1h" {
		t.Error(got, q)
	}
	if again, err := Parse(fixed.String()); err != nil || !reflect.DeepEqual(again, fixed) {
		t.Error(again, err)
	}
}

func TestWithoutAndDrop(t *testing.T) {
	q, err := Parse("a since:1h b until:5m")
	if err != nil {
		t.Fatal(err)
	}
	if got := q.Without(1).String(); got != "a b until:5m" {
		t.Error(got)
	}
	if got := q.Drop("since", "until").String(); got != "a b" || q.String() != "a since:1h b until:5m" {
		t.Error(got, q)
	}
}

func TestComplete(t *testing.T) {
	events := Counter{}
	for _, event := range []string{"Signed Up", "Order Completed", "Order Completed", `Say "hi"`} {
		events.Add(event)
	}
	known := Known{
		Values: map[string][]string{"event": events.Commonest(), "source": {"web shop", "ios"}},
		Members: func(object fields.Field) [][]string {
			return map[fields.Field][][]string{fields.Properties: {{"plan"}, {"unit price"}, {"cart", "total"}}}[object]
		},
		Samples: func(object fields.Field, path []string) []string {
			return map[string][]string{"properties plan": {"Pro", "Team"}}[fields.Names[object]+" "+strings.Join(path, ".")]
		},
	}
	for before, want := range map[string][]string{
		"ev":           {"event:"},
		"x us":         {"x user:"},
		"x -us":        {"x -user:"},
		"event:":       {`event:"Order Completed" `, `event:"Say \"hi\"" `, `event:"Signed Up" `},
		`a event:"sig`: {`a event:"Signed Up" `},
		"event:ORD":    {`event:"Order Completed" `},
		"source:w":     {`source:"web shop" `},
		"status:fil":   {"status:filtered "},
		"pro":          {"prop."},
		"prop.":        {"prop.plan:", `prop."unit price":`, "prop.cart.total:"},
		"prop.tot":     nil,
		"prop.cart.t":  {"prop.cart.total:"},
		"prop.plan:":   {"prop.plan:Pro ", "prop.plan:Team "},
		"since:1":      {"since:15m ", "since:1h "},
		`"eve`:         nil,
		"nothing":      nil,
	} {
		var got []string
		for _, s := range Complete(before, known) {
			got = append(got, s.Text)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", before, got, want)
		}
	}
	if got := len(Complete("", Known{})); got != min(len(Fields), maxSuggestions) {
		t.Errorf("%d fields are offered", got)
	}
}
