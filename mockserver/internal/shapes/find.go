package shapes

import (
	"encoding/json"

	"github.com/seed-45eadc4a/analytics-go/internal/jsonscan"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// Property returns the property at a path, or nil.
func (e *Event) Property(path string) *Property {
	for i := range e.Properties {
		if e.Properties[i].Path == path {
			return &e.Properties[i]
		}
	}
	return nil
}

// Find returns at most maxFound values of a property in a call of the event. If typ or value is not
// empty, it returns only values of this type or with this JSON.
func (e *Event) Find(c *tracking.Call, p *Property, typ, value string) (found []json.RawMessage) {
	if k, ok := keyOf(c); !ok || k != (key{e.Source, e.Type, e.Name}) {
		return nil
	}
	for m := range jsonscan.Members(c.Body) {
		if fields.Of(m.Key) == fields.Describing(c.Type) {
			wanted{typ, value}.find(m.Value, p.steps, &found)
		}
	}
	return found
}

// maxFound is the maximum number of values that Find returns.
const maxFound = 3

// wanted selects values. An empty field matches every value.
type wanted struct{ typ, value string }

// baseType returns the type of a value, with number for integer, because senders may write 3 or
// 3.0.
func baseType(typ string) string {
	if typ == "integer" {
		return "number"
	}
	return typ
}

func (w wanted) matches(raw []byte) bool {
	if name := kindNames[kindOf(raw)].typ; w.typ != "" && baseType(name) != baseType(w.typ) {
		return false
	}
	if w.value == "" {
		return true
	}
	same, _ := canonical(raw)
	return same == w.value
}

// find appends the matching values at a path. raw must be valid JSON.
func (w wanted) find(raw []byte, steps []string, found *[]json.RawMessage) {
	switch {
	case len(*found) == maxFound:
	case len(steps) == 0:
		if w.matches(raw) {
			*found = append(*found, raw)
		}
	case steps[0] == element && raw[0] == '[':
		for v := range jsonscan.Elements(raw) {
			w.find(v, steps[1:], found)
		}
	case steps[0] != element && raw[0] == '{':
		for m := range jsonscan.Members(raw) {
			if string(jsonscan.Unquote(m.Key)) == steps[0] {
				w.find(m.Value, steps[1:], found)
			}
		}
	}
}
