package expect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/jsondiff"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

// unbounded is the value of Expectation.most if the number of calls is not limited.
const unbounded = -1

// members contains the names of the fields that can be expected, in display order.
var members = append(slices.DeleteFunc(slices.Clone(fields.Names[:]), func(name string) bool {
	return name == "" || name == fields.Names[fields.WriteKey]
}), sourceMember, codeMember)

// An Expectation is an expected number of calls with given fields.
type Expectation struct {
	bad         bool           // expects rejected calls
	want        map[string]any // the expected fields
	literals    []literal      // strings in want; compared with a call without decoding it
	least, most int
}

// A literal is a string that the call must contain in a field.
type literal struct {
	field fields.Field
	text  string
}

// isBounded reports whether the number of calls is limited.
func (e *Expectation) isBounded() bool { return e.most != unbounded }

// takes reports whether a call matches the expectation.
func (e *Expectation) takes(c *Call) bool {
	return e.misses(c) == 0 && len(e.differences(c).Lines) == 0
}

// misses returns the number of literals that a call does not match, without decoding the call. It
// counts the rejection status as a literal.
func (e *Expectation) misses(c *Call) (n int) {
	if e.bad != c.isBad() {
		n++
	}
	for _, l := range e.literals {
		if *event.TextOf(&c.Call, l.field) != l.text {
			n++
		}
	}
	return n
}

// differences describes how a call differs from the expectation, one line per difference.
func (e *Expectation) differences(c *Call) *jsondiff.Diff {
	d := jsondiff.Compare(c.value(), e.want, true)
	switch {
	case e.bad && !c.isBad():
		d.Lines = append([]string{"the call was accepted, want a rejected call"}, d.Lines...)
	case !e.bad && c.isBad():
		d.Lines = append([]string{fmt.Sprintf("the call was rejected: %s: %s", c.Code, text.CutBytes(200, c.Message))}, d.Lines...)
	}
	return d
}

// title describes the expectation in one line.
func (e *Expectation) title() string {
	var b strings.Builder
	if e.bad {
		b.WriteString("rejected: ")
	}
	typ, ok := e.want["type"].(string)
	if !ok {
		typ = "call"
	}
	b.WriteString(typ)
	for _, name := range []string{"event", "name"} { // in the same order as in Title
		if s, ok := e.want[name].(string); ok {
			fmt.Fprintf(&b, " %.60q", s)
		}
	}
	with := " with "
	for _, name := range members {
		value, ok := e.want[name]
		if _, isText := value.(string); !ok || isText && (name == "type" || name == "event" || name == "name") {
			continue
		}
		fmt.Fprintf(&b, "%s%s %s", with, name, jsondiff.Text(value, 200))
		with = ", "
	}
	return b.String()
}

// count describes the expected number of calls.
func (e *Expectation) count() string {
	switch {
	case e.most == 0:
		return "none"
	case e.most == e.least:
		return fmt.Sprintf("exactly %d", e.least)
	case e.most == unbounded:
		return fmt.Sprintf("at least %d", e.least)
	case e.least == 0:
		return fmt.Sprintf("at most %d", e.most)
	}
	return fmt.Sprintf("%d to %s", e.least, text.GroupDigits(e.most))
}
