package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// A Change is one difference between two plans.
type Change struct {
	Type    string `json:"type"`            // the type of the calls
	Event   string `json:"event,omitempty"` // the event or name of the calls
	Pointer string `json:"pointer"`         // JSON pointer into the call; * stands for any item or any additional property
	Text    string `json:"text"`            // a description, for example: is now required

	// BreaksSenders is true if a call that matches the old plan can violate the new plan.
	// Programs that send such calls must then change. Diff assumes that programs do not send
	// properties that the old plan does not list.
	BreaksSenders bool `json:"breaksSenders"`

	// BreaksReceivers is true if receivers can get calls that the old plan does not allow: a
	// property or an event can be missing, or can have new values. Diff assumes that receivers
	// ignore unknown properties.
	BreaksReceivers bool `json:"breaksReceivers"`

	OldLine int `json:"oldLine,omitempty"` // line in the old file, starting at 1; 0 if missing
	NewLine int `json:"newLine,omitempty"` // line in the new file
}

// String returns the change in one line:
//
//	track "Order Completed": /properties/total is now required (breaks senders)
func (c Change) String() string {
	text := callName(c.Type, c.Event)
	if c.Pointer != "" {
		text += ": " + c.Pointer
	}
	text += " " + c.Text
	var breaks []string
	if c.BreaksSenders {
		breaks = append(breaks, "senders")
	}
	if c.BreaksReceivers {
		breaks = append(breaks, "receivers")
	}
	if breaks == nil {
		return text
	}
	return text + " (breaks " + strings.Join(breaks, " and ") + ")"
}

// Diff returns the changes from the plan old to the plan new. The changes of events in old come
// first, in file order, and then the events that are only in new. If only one plan has an entry
// for a name, Diff compares that entry with the other plan's entry for any name, if it has one.
// Diff ignores titles, descriptions and examples.
//
// Diff compares types, required and additional properties, enums, formats, patterns and
// bounds, also in items and $ref targets. A change to any other keyword is
// one Change that breaks both senders and receivers.
func Diff(old, new *Plan) []Change {
	d := &differ{}
	for _, before := range old.events {
		d.event = before
		after := new.Find(before.Type, before.Name)
		if after == nil || after.Name != before.Name {
			d.removed(before, new)
		}
		d.entries(before, after)
	}
	for _, after := range new.events {
		if before := old.Find(after.Type, after.Name); before == nil || before.Name != after.Name {
			d.event = after
			d.add(0, after.Line, "", "was added", !old.Judges(after.Type), false)
			d.entries(before, after)
		}
	}
	d.common(old, new)
	return d.changes
}

// entries compares the schemas of two entries, if there are two.
func (d *differ) entries(before, after *Event) {
	if before != nil && after != nil {
		d.compared = map[[2]*Schema]bool{}
		d.schema("/"+before.Member, before.Schema, after.Schema)
	}
}

// A differ collects the changes between two plans.
type differ struct {
	event    *Event
	changes  []Change
	compared map[[2]*Schema]bool // pairs that were already compared, because schemas can be recursive
}

func (d *differ) add(oldLine, newLine int, pointer, text string, senders, receivers bool) {
	d.changes = append(d.changes, Change{
		Type: d.event.Type, Event: d.event.Name, Pointer: pointer, Text: text,
		BreaksSenders: senders, BreaksReceivers: receivers, OldLine: oldLine, NewLine: newLine,
	})
}

// removed adds the change for an event that the new plan does not contain. It breaks senders
// unless the new plan has an entry for calls with any name.
func (d *differ) removed(before *Event, new *Plan) {
	text := "was removed"
	senders := new.Judges(before.Type) && new.Find(before.Type, before.Name) == nil
	if !new.Judges(before.Type) {
		text += "; the plan no longer checks " + before.Type + " calls"
	}
	d.add(before.Line, 0, "", text, senders, true)
}

// everyCall is Change.Type for the common rule.
const everyCall = "every call"

// common compares the common rules, which apply to every call.
func (d *differ) common(old, new *Plan) {
	root := func(p *Plan) *node {
		if p.common == nil {
			return nil
		}
		return p.common.root
	}
	if jsonOf(root(old)) != jsonOf(root(new)) {
		d.changes = append(d.changes, Change{Type: everyCall, Text: "has a different common rule", BreaksSenders: true, BreaksReceivers: true})
	}
}

func (d *differ) schema(pointer string, before, after *Schema) {
	before, after = before.Resolve(), after.Resolve()
	pair := [2]*Schema{before, after}
	if d.compared[pair] {
		return
	}
	d.compared[pair] = true
	d.types(pointer, before, after)
	d.values(pointer, before, after)
	d.limits(pointer, before, after)
	d.properties(pointer, before, after)
	d.part(pointer+"/*", before, after, before.Items, after.Items)
	d.others(pointer, before, after)
}

// allTypes contains the types that a schema allows without the keyword type.
var allTypes = []string{"string", "number", "integer", "boolean", "object", "array", "null"}

// typeSet returns the types that a schema allows. The type number includes integer.
func typeSet(s *Schema) map[string]bool {
	types := s.Types
	if len(types) == 0 {
		types = allTypes
	}
	set := map[string]bool{}
	for _, t := range types {
		set[t] = true
		if t == "number" {
			set["integer"] = true
		}
	}
	return set
}

func (d *differ) types(pointer string, before, after *Schema) {
	old, new := typeSet(before), typeSet(after)
	senders, receivers := false, false
	for _, t := range allTypes {
		senders = senders || old[t] && !new[t]
		receivers = receivers || new[t] && !old[t]
	}
	if senders || receivers {
		d.add(before.Line, after.Line, pointer, fmt.Sprintf("changed from %s to %s", typesText(before), typesText(after)), senders, receivers)
	}
}

func typesText(s *Schema) string {
	if len(s.Types) == 0 {
		return "any type"
	}
	return describeTypes(s.Types)
}

// values compares enums.
func (d *differ) values(pointer string, before, after *Schema) {
	switch {
	case before.Enum == nil && after.Enum == nil:
	case before.Enum == nil:
		d.add(before.Line, after.Line, pointer, "must now be "+describeValues(after.Enum), true, false)
	case after.Enum == nil:
		d.add(before.Line, after.Line, pointer, "no longer has to be "+describeValues(before.Enum), false, true)
	default:
		if gone := without(before.Enum, after.Enum); len(gone) > 0 {
			d.add(before.Line, after.Line, pointer, "no longer allows "+listValues(gone), true, false)
		}
		if added := without(after.Enum, before.Enum); len(added) > 0 {
			d.add(before.Line, after.Line, pointer, "now allows "+listValues(added), false, true)
		}
	}
}

// without returns the values of list that are not in others.
func without(list, others []any) []any {
	have := map[string]bool{}
	for _, v := range others {
		have[canonical(v)] = true
	}
	return slices.DeleteFunc(slices.Clone(list), func(v any) bool { return have[canonical(v)] })
}

// canonical returns a value as JSON. Equal numbers have the same JSON.
func canonical(v any) string {
	if n, ok := v.(json.Number); ok {
		if r, ok := new(big.Rat).SetString(string(n)); ok {
			return r.RatString()
		}
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}

func listValues(values []any) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = excerpt(v)
	}
	return strings.Join(texts, " or ")
}

// limits contains the keywords that restrict a value: lower bounds, upper bounds, and keywords
// whose values have no order.
var limits = []struct {
	keyword      string
	lower, upper bool
}{
	{"minimum", true, false}, {"exclusiveMinimum", true, false}, {"minLength", true, false}, {"minItems", true, false}, {"minProperties", true, false},
	{"maximum", false, true}, {"exclusiveMaximum", false, true}, {"maxLength", false, true}, {"maxItems", false, true}, {"maxProperties", false, true},
	{"format", false, false}, {"pattern", false, false}, {"multipleOf", false, false}, {"uniqueItems", false, false},
}

func (d *differ) limits(pointer string, before, after *Schema) {
	for _, l := range limits {
		old, new := before.node.get(l.keyword), after.node.get(l.keyword)
		switch {
		case old == nil && new == nil:
		case old == nil:
			d.add(before.Line, new.line, pointer, fmt.Sprintf("now has %s %s", l.keyword, new.text), true, false)
		case new == nil:
			d.add(old.line, after.Line, pointer, fmt.Sprintf("no longer has %s %s", l.keyword, old.text), false, true)
		default:
			compare := cmp.Compare[string]
			if l.lower || l.upper {
				compare = compareNumbers
			}
			if c := compare(old.text, new.text); c != 0 {
				narrower := c < 0 && !l.upper || c > 0 && !l.lower
				wider := c > 0 && !l.upper || c < 0 && !l.lower
				d.add(old.line, new.line, pointer, fmt.Sprintf("changed %s from %s to %s", l.keyword, old.text, new.text), narrower, wider)
			}
		}
	}
}

func compareNumbers(a, b string) int {
	x, ok := new(big.Rat).SetString(a)
	y, ok2 := new(big.Rat).SetString(b)
	if !ok || !ok2 {
		return cmp.Compare(a, b)
	}
	return x.Cmp(y)
}

// properties compares the properties of two object schemas.
func (d *differ) properties(pointer string, before, after *Schema) {
	for _, old := range before.Properties {
		at := pointer + pointerTo(old.Name)
		new, ok := after.Property(old.Name)
		if !ok {
			d.add(old.Line, after.Line, at, "was removed", after.Closed, true)
			if after.Additional != nil { // the property now has the schema of additional properties
				d.schema(at, old.Schema, after.Additional)
			}
			continue
		}
		if new.Required != old.Required {
			text := "is now required"
			if old.Required {
				text = "is no longer required"
			}
			d.add(old.Line, new.Line, at, text, new.Required, old.Required)
		}
		d.schema(at, old.Schema, new.Schema)
	}
	for _, new := range after.Properties {
		if _, ok := before.Property(new.Name); ok {
			continue
		}
		text := "was added"
		if new.Required {
			text = "was added and is required"
		}
		d.add(before.Line, new.Line, pointer+pointerTo(new.Name), text, new.Required, false)
	}
	d.additional(pointer, before, after)
}

func (d *differ) additional(pointer string, before, after *Schema) {
	switch {
	case before.Closed && after.Closed:
	case after.Closed:
		d.add(before.Line, after.Line, pointer, "no longer allows other properties", true, false)
	case before.Closed:
		d.add(before.Line, after.Line, pointer, "now allows other properties", false, false)
	default:
		d.part(pointer+"/*", before, after, before.Additional, after.Additional)
	}
}

// part compares the schemas old and new of items or of additional properties. Each may be nil.
func (d *differ) part(pointer string, before, after, old, new *Schema) {
	switch {
	case old != nil && new != nil:
		d.schema(pointer, old, new)
	case new != nil:
		d.add(before.Line, new.Line, pointer, "now has a schema", true, false)
	case old != nil:
		d.add(old.Line, after.Line, pointer, "no longer has a schema", false, true)
	}
}

// others compares the values of all other keywords, such as anyOf, as a whole.
func (d *differ) others(pointer string, before, after *Schema) {
	var keys []string
	for _, n := range []*node{before.node, after.node} {
		for _, m := range n.fields {
			if k := keywords[m.key]; k.kind != unknownKeyword && k.flags&compared == 0 && !slices.Contains(keys, m.key) {
				keys = append(keys, m.key)
			}
		}
	}
	for _, key := range keys {
		old, new := before.node.get(key), after.node.get(key)
		if jsonOf(old) != jsonOf(new) {
			d.add(before.Line, after.Line, pointer, "has a different "+key, true, true)
		}
	}
	if before.Ref == nil && after.Ref == nil && before.RefName != after.RefName {
		d.add(before.Line, after.Line, pointer, "has a different $ref", true, true)
	}
}

// jsonOf returns a node as JSON with sorted keys.
func jsonOf(n *node) string {
	if n == nil {
		return ""
	}
	return canonical(n.value())
}
