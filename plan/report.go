package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Report summarizes the violations of many calls and counts the used entries of the
// plan. It combines equal violations at the same position into a group. Its memory is bounded. It
// is not safe for concurrent use.
type Report struct {
	plan   *Plan
	calls  int // number of checked calls
	passed int // number of calls whose type has no section
	bad    int
	groups map[groupKey]*Group
	order  []*Group
	more   int // number of violations that were not added because of maxGroups
	used   map[*Event]int
}

// A Group is a violation that occurs in one or more calls.
type Group struct {
	Violation        // the violation of the first call
	First     string `json:"first,omitempty"` // the source of the first call, as passed to AddFrom
	Calls     int    `json:"calls"`           // number of calls with this violation
}

type groupKey struct {
	kind                               Kind
	callType, event, pointer, expected string
	line                               int
}

// maxGroups is the maximum number of groups in a report.
const maxGroups = 10_000

// NewReport returns an empty report.
func (p *Plan) NewReport() *Report {
	return &Report{plan: p, groups: map[groupKey]*Group{}, used: map[*Event]int{}}
}

// Add checks a call with [Plan.Judge], and returns its violations.
func (r *Report) Add(call []byte) []Violation { return r.AddFrom("", call) }

// AddFrom is like Add, and also records the source of the call, such as calls.jsonl:12.
func (r *Report) AddFrom(place string, call []byte) []Violation {
	event, violations := r.plan.judge(call)
	if event == nil && violations == nil {
		r.passed++
		return nil
	}
	r.calls++
	if event != nil {
		r.used[event]++
	}
	if len(violations) > 0 {
		r.bad++
	}
	seen := map[*Group]bool{}
	for _, v := range violations {
		if g := r.group(place, v); g != nil && !seen[g] {
			seen[g] = true
			g.Calls++
		}
	}
	return violations
}

func (r *Report) group(place string, v Violation) *Group {
	key := groupKey{v.Kind, v.Type, v.Event, withoutIndexes(v.Pointer), v.Expected, v.Line}
	if g := r.groups[key]; g != nil {
		return g
	}
	if len(r.order) == maxGroups {
		r.more++
		return nil
	}
	g := &Group{Violation: v, First: place}
	r.groups[key] = g
	r.order = append(r.order, g)
	return g
}

// withoutIndexes replaces each array index in a pointer by *. All items of a list then belong to
// the same group.
func withoutIndexes(pointer string) string {
	tokens := strings.Split(pointer, "/")
	for i, t := range tokens {
		if _, err := strconv.ParseUint(t, 10, 32); err == nil {
			tokens[i] = "*"
		}
	}
	return strings.Join(tokens, "/")
}

// Calls returns the number of checked calls and the number of calls with violations. It does not
// count calls whose type has no section in the plan.
func (r *Report) Calls() (judged, bad int) { return r.calls, r.bad }

// Passed returns the number of calls that were not checked, because their type has no section.
func (r *Report) Passed() int { return r.passed }

// OK reports whether at least one call was added and all calls match the plan.
func (r *Report) OK() bool { return !r.empty() && r.bad == 0 }

func (r *Report) empty() bool { return r.calls+r.passed == 0 }

// Groups returns the violations grouped by call, in order of arrival. It returns at most 10,000
// groups.
func (r *Report) Groups() []Group {
	first := map[string]int{}
	for i, g := range r.order {
		if _, ok := first[g.Call()]; !ok {
			first[g.Call()] = i
		}
	}
	sorted := make([]Group, len(r.order))
	for i, g := range r.order {
		sorted[i] = *g
	}
	slices.SortStableFunc(sorted, func(a, b Group) int { return first[a.Call()] - first[b.Call()] })
	return sorted
}

// Used returns the number of calls that were checked against an entry.
func (r *Report) Used(e *Event) int { return r.used[e] }

// Unused returns the entries that no call was checked against, in file order.
func (r *Report) Unused() []*Event {
	return slices.DeleteFunc(r.plan.Events(), func(e *Event) bool { return r.used[e] > 0 })
}

// String returns all violations. Each group is one line, below a line with the call's name:
//
//	2 of 9 calls violate shop.yaml
//	  track "Order Completed"
//	    shop.yaml:9: /properties/total is missing; expected a number (2 calls)
func (r *Report) String() string {
	switch {
	case r.empty():
		return "no calls to check against " + r.plan.file
	case r.calls == 0:
		return fmt.Sprintf("no calls of a type in %s", r.plan.file)
	case r.OK():
		if r.calls == 1 {
			return "1 call matches " + r.plan.file
		}
		return fmt.Sprintf("all %d calls match %s", r.calls, r.plan.file)
	}
	var b strings.Builder
	verb := "violate"
	if r.bad == 1 {
		verb = "violates"
	}
	fmt.Fprintf(&b, "%d of %s %s %s", r.bad, count(r.calls, "call", "calls"), verb, r.plan.file)
	call := ""
	for _, g := range r.Groups() {
		if g.Call() != call {
			call = g.Call()
			b.WriteString("\n  " + call)
		}
		fmt.Fprintf(&b, "\n    %s: %s%s", place(g.File, g.Line), g.Text(), g.where())
	}
	if r.more > 0 {
		fmt.Fprintf(&b, "\n  and %d more violations", r.more)
	}
	return b.String()
}

// where returns the number of calls and the source of the first one.
func (g *Group) where() string {
	switch {
	case g.Calls > 1 && g.First != "":
		return fmt.Sprintf(" (%d calls, the first at %s)", g.Calls, g.First)
	case g.Calls > 1:
		return fmt.Sprintf(" (%d calls)", g.Calls)
	case g.First != "":
		return fmt.Sprintf(" (at %s)", g.First)
	}
	return ""
}
