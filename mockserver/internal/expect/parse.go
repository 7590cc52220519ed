package expect

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/jsondiff"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// Limits and defaults of Request.
const (
	MaxExpectations = 100
	MaxWithin       = 5 * time.Minute
	DefaultWithin   = 5 * time.Second
	DefaultSettle   = 250 * time.Millisecond
)

// A Request is a parsed document of expectations.
type Request struct {
	// Within is the time limit for the arrival of the calls.
	Within time.Duration
	// Settle is the additional time to wait for calls beyond the expected number.
	Settle time.Duration
	// Source and WriteKey restrict the calls to one source. At most one of them is set.
	Source, WriteKey string
	// Ordered requires that calls arrive in the order of Expect.
	Ordered bool
	Expect  []*Expectation
}

// Field names of a document.
var (
	requestMembers     = []string{"within", "settle", "source", "writeKey", "ordered", "expect"}
	expectationMembers = append(slices.Clone(members), "bad", "count", "atLeast", "atMost")
)

// Parse parses a document that was decoded by jsondiff.Decode or similarly. It returns all mistakes
// in the document.
func Parse(document any) (*Request, []Problem) {
	var ps problems
	r := &Request{Within: DefaultWithin, Settle: DefaultSettle}
	object, ok := document.(map[string]any)
	if !ok {
		ps.add(nil, "is "+kindOf(document), `make it an object such as {"within":"10s","expect":[{"event":"Signed Up"}]}`)
		return nil, ps
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		path, value := []any{name}, object[name]
		switch name {
		case "within":
			ps.duration(path, value, &r.Within)
		case "settle":
			ps.duration(path, value, &r.Settle)
		case "source":
			ps.text(path, value, &r.Source)
		case "writeKey":
			ps.text(path, value, &r.WriteKey)
		case "ordered":
			ps.bool(path, value, &r.Ordered)
		case "expect":
			r.Expect = ps.expectations(path, value)
		default:
			ps.unknown(nil, name, requestMembers)
		}
	}
	if _, ok := object["expect"]; !ok {
		ps.add(nil, "has no expect", `add a list of expectations, such as "expect":[{"event":"Signed Up"}]`)
	}
	if r.Source != "" && r.WriteKey != "" {
		ps.add([]any{"writeKey"}, "conflicts with source", "use one of them")
	}
	if len(ps) > 0 {
		return nil, ps
	}
	return r, nil
}

func (ps *problems) expectations(path []any, value any) []*Expectation {
	list, ok := value.([]any)
	if !ok || len(list) == 0 || len(list) > MaxExpectations {
		ps.add(path, "is "+kindOf(value), fmt.Sprintf("make it a list of 1 to %d expectations", MaxExpectations))
		return nil
	}
	all := make([]*Expectation, len(list))
	for i := range list {
		all[i] = ps.expectation(append(path, i), list[i])
	}
	return all
}

func (ps *problems) expectation(path []any, value any) *Expectation {
	e := &Expectation{want: map[string]any{}, least: 1, most: unbounded}
	object, ok := value.(map[string]any)
	if !ok {
		ps.add(path, "is "+kindOf(value), `make it an object such as {"event":"Signed Up"}`)
		return e
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		path, value := append(path, name), object[name]
		switch {
		case name == "bad":
			ps.bool(path, value, &e.bad)
		case name == "count":
			ps.count(path, value, &e.least)
			e.most = e.least
		case name == "atLeast", name == "atMost":
		case slices.Contains(members, name):
			e.want[name] = ps.member(path, name, value)
		default:
			ps.unknown(path[:len(path)-1], name, expectationMembers)
		}
	}
	ps.bounds(e, path, object)
	if code, ok := e.want[codeMember]; ok && !e.bad {
		ps.add(append(path, codeMember), "needs bad", `only rejected calls have a code; add "bad":true`)
	} else if code, ok := code.(string); ok && !slices.Contains(event.Codes(), code) {
		ps.add(append(path, codeMember), "is "+jsondiff.Text(code, 40)+", an unknown code", hintOf(code, event.Codes()))
	}
	if typ, ok := e.want["type"].(string); ok && !e.bad && !slices.Contains(fields.Types, typ) { // a rejected call can have any type
		ps.add(append(path, "type"), "is "+jsondiff.Text(typ, 40)+", an unknown type", hintOf(typ, fields.Types))
	}
	for name, value := range e.want {
		f := fields.ByName[name]
		if s, ok := value.(string); ok && event.TextOf(new(tracking.Call), f) != nil {
			e.literals = append(e.literals, literal{f, s})
		}
	}
	return e
}

// bounds parses the fields atLeast and atMost of an expectation.
func (ps *problems) bounds(e *Expectation, path []any, object map[string]any) {
	_, exactly := object["count"]
	for _, name := range []string{"atLeast", "atMost"} {
		value, ok := object[name]
		switch {
		case !ok:
		case exactly:
			ps.add(append(path, name), "conflicts with count", "use one of them")
		case name == "atLeast":
			ps.count(append(path, name), value, &e.least)
		default:
			if _, both := object["atLeast"]; !both {
				e.least = 0
			}
			ps.count(append(path, name), value, &e.most)
			if e.most < e.least {
				ps.add(append(path, name), fmt.Sprintf("is %d", e.most), fmt.Sprintf("use at least %d, the value of atLeast", e.least))
			}
		}
	}
}

// member parses the expected value of a field.
func (ps *problems) member(path []any, name string, value any) any {
	want := ps.wantOf(path, value)
	if _, ok := want.(*matcher); ok {
		return want
	}
	if fields.ByName[name].IsObject() {
		if _, ok := want.(map[string]any); !ok {
			ps.add(path, "is "+kindOf(value), "make it an object with the expected fields")
		}
	} else if _, ok := want.(string); !ok && want != nil {
		ps.add(path, "is "+kindOf(value), fmt.Sprintf("make it a string, null, or a matcher such as {%q: %s}", equalsMatcher, jsondiff.Text(value, 40)))
	}
	return want
}

func (ps *problems) duration(path []any, value any, d *time.Duration) {
	s, _ := value.(string)
	parsed, err := time.ParseDuration(s)
	if err != nil || parsed < 0 || parsed > MaxWithin {
		ps.add(path, "is "+jsondiff.Text(value, 40), "use a duration such as 500ms or 10s, of at most 5m")
		return
	}
	*d = parsed
}

func (ps *problems) text(path []any, value any, s *string) {
	var ok bool
	if *s, ok = value.(string); !ok || *s == "" {
		ps.add(path, "is "+jsondiff.Text(value, 40), "use a name")
	}
}

func (ps *problems) bool(path []any, value any, b *bool) {
	var ok bool
	if *b, ok = value.(bool); !ok {
		ps.add(path, "is "+jsondiff.Text(value, 40), "use true or false")
	}
}

func (ps *problems) count(path []any, value any, n *int) {
	number, _ := value.(json.Number)
	count, err := strconv.Atoi(string(number))
	if err != nil || count < 0 {
		ps.add(path, "is "+jsondiff.Text(value, 40), "use a whole number from 0")
		return
	}
	*n = count
}

// kindOf returns a noun phrase for the type of a value.
func kindOf(v any) string {
	switch v := v.(type) {
	case map[string]any:
		return "an object"
	case []any:
		if len(v) == 0 {
			return "an empty list"
		}
		return fmt.Sprintf("a list of %d", len(v))
	}
	return jsondiff.Text(v, 40)
}
