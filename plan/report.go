package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Report gathers how many calls are not as planned, with violations of the same kind
// at the same place as one, and which entries of the plan were used. Its memory is
// bounded. It is for one goroutine at a time.
type Report struct {
	plan   *Plan
	calls  int // that the plan judges
	passed int // of types that it says nothing of
	bad    int
	groups map[groupKey]*Group
	order  []*Group
	more   int // violations beyond maxGroups
	used   map[*Event]int
}

// A Group is a violation of one or more calls.
type Group struct {
	Violation        // the first
	First     string `json:"first,omitempty"` // where the call of the first is, as AddFrom was told
	Calls     int    `json:"calls"`           // how many calls have it
}

type groupKey struct {
	kind                               Kind
	callType, event, pointer, expected string
	line                               int
}

// maxGroups is how many violations a report tells apart.
const maxGroups = 10_000

// NewReport returns a report on calls that are held against the plan.
func (p *Plan) NewReport() *Report {
	return &Report{plan: p, groups: map[groupKey]*Group{}, used: map[*Event]int{}}
}

// Add judges a call, see [Plan.Judge], and returns its violations.
func (r *Report) Add(call []byte) []Violation { return r.AddFrom("", call) }

// AddFrom is Add of a call that is at a place, such as calls.jsonl:12.
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

// withoutIndexes puts * in place of the indexes of a pointer: what is wrong with each item
// of a list is told once.
func withoutIndexes(pointer string) string {
	tokens := strings.Split(pointer, "/")
	for i, t := range tokens {
		if _, err := strconv.ParseUint(t, 10, 32); err == nil {
			tokens[i] = "*"
		}
	}
	return strings.Join(tokens, "/")
}

// Calls returns how many calls the plan judged, and how many of them are not as planned.
// Those of types that the plan says nothing of are not among them.
func (r *Report) Calls() (judged, bad int) { return r.calls, r.bad }

// Passed returns how many calls were of types that the plan says nothing of.
func (r *Report) Passed() int { return r.passed }

// OK reports whether there were calls, and all of them are as planned or pass.
func (r *Report) OK() bool { return !r.empty() && r.bad == 0 }

func (r *Report) empty() bool { return r.calls+r.passed == 0 }

// Groups returns the violations, by call, in the order in which calls and violations
// came; at most 10,000.
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

// Used returns how many calls were held against an entry of the plan.
func (r *Report) Used(e *Event) int { return r.used[e] }

// Unused returns the entries of the plan that no call was held against, in the order of
// the file.
func (r *Report) Unused() []*Event {
	return slices.DeleteFunc(r.plan.Events(), func(e *Event) bool { return r.used[e] > 0 })
}

// String returns all violations, a line for each group, below a line for each call:
//
//	2 of 9 calls are not as planned in shop.yaml
//	  track "Order Completed"
//	    shop.yaml:9: /properties/total is missing; the plan requires a number (2 calls)
func (r *Report) String() string {
	switch {
	case r.empty():
		return "there is no call to hold against " + r.plan.file
	case r.calls == 0:
		return fmt.Sprintf("no call is of a type that %s has", r.plan.file)
	case r.OK():
		return fmt.Sprintf("%s as planned in %s", areAll(r.calls), r.plan.file)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %s not as planned in %s", r.bad, are(r.calls), r.plan.file)
	call := ""
	for _, g := range r.Groups() {
		if g.Call() != call {
			call = g.Call()
			b.WriteString("\n  " + call)
		}
		fmt.Fprintf(&b, "\n    %s: %s%s", g.place(), g.Text(), g.where())
	}
	if r.more > 0 {
		fmt.Fprintf(&b, "\n  and %d violations more", r.more)
	}
	return b.String()
}

// place returns the file and the line of the plan that is violated.
func (g *Group) place() string {
	if g.Line == 0 {
		return g.File
	}
	return fmt.Sprintf("%s:%d", g.File, g.Line)
}

// where says which calls have the violation, where that is worth a word.
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

func are(n int) string {
	if n == 1 {
		return "1 call is"
	}
	return fmt.Sprintf("%d calls are", n)
}

func areAll(n int) string {
	if n == 1 {
		return are(n)
	}
	return fmt.Sprintf("all %d calls are", n)
}
