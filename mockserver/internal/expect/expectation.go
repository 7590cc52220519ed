package expect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/jsondiff"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

// unbounded is the most of an expectation that any number of calls may fulfil.
const unbounded = -1

// members are those of a call that can be expected, in the order in which they are told.
var members = append(slices.DeleteFunc(slices.Clone(fields.Names[:]), func(name string) bool {
	return name == "" || name == fields.Names[fields.WriteKey]
}), sourceMember, codeMember)

// An Expectation says of some calls how many there are to be.
type Expectation struct {
	bad         bool           // of calls that were not taken
	want        map[string]any // what those calls hold
	literals    []literal      // of want, to tell most calls apart without decoding them
	least, most int
}

// A literal is a text that a member of a call must be.
type literal struct {
	field fields.Field
	text  string
}

// isBounded reports whether there can be too many calls.
func (e *Expectation) isBounded() bool { return e.most != unbounded }

// takes reports whether a call is one of those that are expected.
func (e *Expectation) takes(c *Call) bool {
	return e.misses(c) == 0 && len(e.differences(c).Lines) == 0
}

// misses returns how many of its literals a call does not have, without decoding it. That
// it was taken, or not, is one of them.
func (e *Expectation) misses(c *Call) (n int) {
	if e.bad != c.isBad() {
		n++
	}
	for _, l := range e.literals {
		if *fields.TextOf(&c.Call, l.field) != l.text {
			n++
		}
	}
	return n
}

// differences says how a call is not as expected, a line for each place.
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

// title names what is expected in a line.
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
	for _, name := range []string{"event", "name"} { // as a call is named
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

// count says how many calls there are to be.
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
