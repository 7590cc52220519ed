package plan_test

import (
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/seed-45eadc4a/analytics-go/plan"
)

// receivedCalls implements Calls with a list of calls.
type receivedCalls []string

func (c receivedCalls) Bodies() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for _, call := range c {
			if !yield([]byte(call)) {
				return
			}
		}
	}
}

// A fakeTB is a TB that records failures.
type fakeTB struct{ failures []string }

func (*fakeTB) Helper() {}
func (f *fakeTB) Errorf(format string, args ...any) {
	f.failures = append(f.failures, fmt.Sprintf(format, args...))
}

// planFile writes a plan with two events and returns its path.
func planFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "plan.yaml")
	text := "track:\n  A:\n    properties:\n      n: {type: integer, required: true}\n      list: {items: {type: string}}\n  B:\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const rightCall = `{"type":"track","event":"A","properties":{"n":1}}`

func TestExpectGroupsViolations(t *testing.T) {
	file := planFile(t)
	var tb fakeTB
	plan.Expect(&tb, receivedCalls{
		rightCall, `{"type":"track","event":"A"}`, `{"type":"track","event":"b"}`, `{"type":"alias"}`,
		`{"type":"track","event":"A","properties":{"list":[1,"x",2]}}`, `{"type":"track","event":"b"}`,
	}, file)
	want := `plan: 4 of 5 calls violate FILE
  track "A"
    FILE:4: /properties/n is missing; expected an integer (2 calls)
    FILE:5: /properties/list/0 is 1, a number; expected a string
  track "b"
    FILE: is not in the plan; did you mean "B"? (2 calls)`
	if len(tb.failures) != 1 || strings.ReplaceAll(tb.failures[0], file, "FILE") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.ReplaceAll(strings.Join(tb.failures, "\n"), file, "FILE"), want)
	}
}

func TestExpectPasses(t *testing.T) {
	for _, calls := range []receivedCalls{{rightCall, `{"type":"page"}`}, {`{"type":"alias"}`}} {
		var tb fakeTB
		plan.Expect(&tb, calls, planFile(t))
		if len(tb.failures) > 0 {
			t.Error(tb.failures)
		}
	}
}

func TestExpectFailsWithoutCalls(t *testing.T) {
	file := planFile(t)
	var tb fakeTB
	plan.Expect(&tb, receivedCalls{}, file)
	want := "plan: no calls to check against " + file + "; flush or close the client before Expect"
	if len(tb.failures) != 1 || tb.failures[0] != want {
		t.Errorf("got %q, want %q", tb.failures, want)
	}
}

func TestExpectFailsWithoutPlan(t *testing.T) {
	var tb fakeTB
	plan.Expect(&tb, receivedCalls{}, filepath.Join(t.TempDir(), "none.yaml"))
	if len(tb.failures) != 1 || !strings.Contains(tb.failures[0], "no such file") || !strings.Contains(tb.failures[0], "directory of the test's package") {
		t.Error(tb.failures)
	}
}

func TestUnusedConcurrentSafe(t *testing.T) {
	file := planFile(t)
	names := func() string {
		unused, err := plan.Unused(file)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range unused {
			names = append(names, e.Name)
		}
		return strings.Join(names, " ")
	}
	if got := names(); got != "A B" {
		t.Errorf("got %q", got)
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			var tb fakeTB
			plan.Expect(&tb, receivedCalls{rightCall, rightCall}, file)
		})
	}
	group.Wait()
	if got := names(); got != "B" {
		t.Errorf("got %q", got)
	}
	if _, err := plan.Unused("none.yaml"); err == nil {
		t.Error("unused events of a missing file")
	}
}

func TestReportCounts(t *testing.T) {
	p := shop(t)
	r := p.NewReport()
	if got, want := r.String(), "no calls to check against testdata/shop.yaml"; got != want || r.OK() {
		t.Errorf("got %q, want %q", got, want)
	}
	r.Add([]byte(`{"type":"alias"}`))
	if got, want := r.String(), "no calls of a type in testdata/shop.yaml"; got != want || !r.OK() {
		t.Errorf("got %q, want %q", got, want)
	}
	r = p.NewReport()
	for _, call := range []string{`{"type":"page","name":"Docs","properties":{"path":"/"}}`, `{"type":"alias"}`, `{"type":"page","name":"x"}`} {
		r.Add([]byte(call))
	}
	judged, bad := r.Calls()
	if judged != 2 || bad != 0 || r.Passed() != 1 || !r.OK() || r.Used(p.Find("page", "Docs")) != 1 {
		t.Errorf("%d judged, %d bad, %d passed", judged, bad, r.Passed())
	}
	if got, want := r.String(), "all 2 calls match testdata/shop.yaml"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if unused := r.Unused(); len(unused) != 5 || slices.Contains(unused, p.Find("page", "Docs")) {
		t.Errorf("got %v", unused)
	}
}

func TestReportIsBounded(t *testing.T) {
	p := shop(t)
	r := p.NewReport()
	for i := range 10_100 {
		r.Add(fmt.Appendf(nil, `{"type":"track","event":"Event %d"}`, i))
	}
	if n := len(r.Groups()); n != 10_000 {
		t.Errorf("%d groups", n)
	}
	if !strings.HasSuffix(r.String(), "and 100 more violations") {
		t.Error("the omitted violations are not counted")
	}
}

func TestDiff(t *testing.T) {
	entry := func(schema string) string { return "track:\n  A: " + schema + "\n" }
	property := func(schema string) string { return entry("{properties: {p: " + schema + "}}") }
	for _, c := range []struct{ name, old, new, want string }{
		{"nothing", property("{type: string, description: old}"), property("{type: string, description: new}"), ""},
		{"order of values", property("{enum: [a, 1.0]}"), property("{enum: [1, a]}"), ""},
		{"event is new", entry("{}"), entry("{}") + "  B:\n", `track "B" was added`},
		{"type of calls is new", entry("{}"), entry("{}") + "page: {X: }", `page "X" was added (breaks senders)`},
		{"event is gone", entry("{}") + "  B:\n", entry("{}"), `track "B" was removed (breaks senders and receivers)`},
		{"event falls under any other name", entry("{}") + "  B:\n", entry("{}") + "  '': {}\n", "track \"B\" was removed (breaks receivers)\ntrack of any name was added"},
		{"event falls under a narrower entry", entry("{}") + "  B: {properties: {p: {type: string}}}\n", entry("{}") + "  '': {properties: {p: {type: integer}}}\n", "track \"B\" was removed (breaks receivers)\ntrack \"B\": /properties/p changed from a string to an integer (breaks senders and receivers)\ntrack of any name was added"},
		{"event gets a narrower entry", entry("{}") + "  '': {}\n", entry("{}") + "  '': {}\n  B: {properties: {p: {required: true}}}\n", "track \"B\" was added\ntrack \"B\": /properties/p was added and is required (breaks senders)"},
		{"types of calls are gone", entry("{}") + "identify: {}", entry("{}"), `identify was removed; the plan no longer checks identify calls (breaks receivers)`},
		{"property is new", entry("{}"), property("{type: string}"), `track "A": /properties/p was added`},
		{"property is new and required", entry("{}"), property("{type: string, required: true}"), `track "A": /properties/p was added and is required (breaks senders)`},
		{"property is gone", property("{}"), entry("{}"), `track "A": /properties/p was removed (breaks receivers)`},
		{"property falls under another schema", entry("{properties: {p: {type: string}}, additionalProperties: {type: integer}}"), entry("{additionalProperties: {type: integer}}"), "track \"A\": /properties/p was removed (breaks receivers)\ntrack \"A\": /properties/p changed from a string to an integer (breaks senders and receivers)"},
		{"property is refused", property("{}"), entry("{additionalProperties: false}"), "track \"A\": /properties/p was removed (breaks senders and receivers)\ntrack \"A\": /properties no longer allows other properties (breaks senders)"},
		{"required", property("{}"), property("{required: true}"), `track "A": /properties/p is now required (breaks senders)`},
		{"optional", property("{required: true}"), property("{}"), `track "A": /properties/p is no longer required (breaks receivers)`},
		{"type is narrower", property("{type: number}"), property("{type: integer}"), `track "A": /properties/p changed from a number to an integer (breaks senders)`},
		{"type is wider", property("{type: string}"), property(`{type: [string, "null"]}`), `track "A": /properties/p changed from a string to a string or null (breaks receivers)`},
		{"type is another", property("{type: string}"), property("{type: integer}"), `track "A": /properties/p changed from a string to an integer (breaks senders and receivers)`},
		{"type is new", property("{}"), property("{type: integer}"), `track "A": /properties/p changed from any type to an integer (breaks senders)`},
		{"value is gone", property("{enum: [a, b]}"), property("{enum: [a]}"), `track "A": /properties/p no longer allows "b" (breaks senders)`},
		{"value is new", property("{enum: [a]}"), property("{enum: [a, b]}"), `track "A": /properties/p now allows "b" (breaks receivers)`},
		{"enum is new", property("{}"), property("{enum: [a, b]}"), `track "A": /properties/p must now be one of "a", "b" (breaks senders)`},
		{"const is gone", property("{const: a}"), property("{}"), `track "A": /properties/p no longer has to be "a" (breaks receivers)`},
		{"minimum rises", property("{minimum: 1}"), property("{minimum: 2}"), `track "A": /properties/p changed minimum from 1 to 2 (breaks senders)`},
		{"minimum falls", property("{minimum: 1}"), property("{minimum: 0.5}"), `track "A": /properties/p changed minimum from 1 to 0.5 (breaks receivers)`},
		{"maximum falls", property("{maxLength: 9}"), property("{maxLength: 8}"), `track "A": /properties/p changed maxLength from 9 to 8 (breaks senders)`},
		{"maximum is new", property("{}"), property("{maximum: 8}"), `track "A": /properties/p now has maximum 8 (breaks senders)`},
		{"maximum is gone", property("{maximum: 8}"), property("{}"), `track "A": /properties/p no longer has maximum 8 (breaks receivers)`},
		{"same bound", property("{maximum: 1}"), property("{maximum: 1.0}"), ""},
		{"format is new", property("{}"), property("{format: email}"), `track "A": /properties/p now has format email (breaks senders)`},
		{"format is gone", property("{format: email}"), property("{}"), `track "A": /properties/p no longer has format email (breaks receivers)`},
		{"pattern is another", property("{pattern: a}"), property("{pattern: b}"), `track "A": /properties/p changed pattern from a to b (breaks senders and receivers)`},
		{"items", property("{items: {type: string}}"), property("{items: {type: integer}}"), `track "A": /properties/p/* changed from a string to an integer (breaks senders and receivers)`},
		{"items are new", property("{type: array}"), property("{type: array, items: {type: integer}}"), `track "A": /properties/p/* now has a schema (breaks senders)`},
		{"items are gone", property("{items: {type: string}}"), property("{}"), `track "A": /properties/p/* no longer has a schema (breaks receivers)`},
		{"nested", property("{properties: {q: {type: string}}}"), property("{properties: {q: {type: string, required: true}}}"), `track "A": /properties/p/q is now required (breaks senders)`},
		{"closed", entry("{}"), entry("{additionalProperties: false}"), `track "A": /properties no longer allows other properties (breaks senders)`},
		{"open", entry("{additionalProperties: false}"), entry("{}"), `track "A": /properties now allows other properties`},
		{"others", entry("{additionalProperties: {type: string}}"), entry("{additionalProperties: {type: integer}}"), `track "A": /properties/* changed from a string to an integer (breaks senders and receivers)`},
		{"other keyword", property("{anyOf: [{type: string}]}"), property("{anyOf: [{type: integer}]}"), `track "A": /properties/p has a different anyOf (breaks senders and receivers)`},
		{"$ref target", "$defs: {x: {type: string}}\n" + property("{$ref: '#/$defs/x'}"), "$defs: {x: {type: integer}}\n" + property("{$ref: '#/$defs/x'}"), `track "A": /properties/p changed from a string to an integer (breaks senders and receivers)`},
		{"$ref for the same", "$defs: {x: {type: string}}\n" + property("{$ref: '#/$defs/x'}"), property("{type: string}"), ""},
		{"common rule", `{"rules":{"events":[],"global":{"type":"object"}}}`, `{"rules":{"events":[],"global":{"type":"object","required":["userId"]}}}`, `every call has a different common rule (breaks senders and receivers)`},
		{"order of keys in the common rule", `{"rules":{"events":[],"global":{"type":"object","required":["userId"]}}}`, `{"rules":{"events":[],"global":{"required":["userId"],"type":"object"}}}`, ""},
		{"recursive schema", "$defs: {x: {properties: {x: {$ref: '#/$defs/x'}}}}\n" + property("{$ref: '#/$defs/x'}"), "$defs: {x: {properties: {x: {$ref: '#/$defs/x'}}, required: [x]}}\n" + property("{$ref: '#/$defs/x'}"), `track "A": /properties/p/x is now required (breaks senders)`},
	} {
		t.Run(c.name, func(t *testing.T) {
			old, err := plan.Parse("old", []byte(c.old))
			if err != nil {
				t.Fatal(err)
			}
			after, err := plan.Parse("new", []byte(c.new))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, change := range plan.Diff(old, after) {
				got = append(got, change.String())
			}
			if strings.Join(got, "\n") != c.want {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), c.want)
			}
		})
	}
}
