package shapes

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"go/format"
	"slices"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

const (
	// enumRepeats is the minimum average number of occurrences of each value. A property with
	// fewer occurrences is not an enumeration.
	enumRepeats = 10
	dialect     = "https://json-schema.org/draft/2020-12/schema"
)

// A Schema is a JSON Schema, restricted to the keywords used here.
type Schema struct {
	Dialect     string             `json:"$schema,omitempty"`
	Title       string             `json:"title,omitempty"`
	Description string             `json:"description,omitempty"`
	Type        any                `json:"type,omitempty"` // a string, or a list of strings
	Const       string             `json:"const,omitempty"`
	Enum        []json.RawMessage  `json:"enum,omitempty"`
	Format      string             `json:"format,omitempty"`
	Properties  map[string]*Schema `json:"properties,omitempty"`
	Required    []string           `json:"required,omitempty"`
	Items       *Schema            `json:"items,omitempty"`
}

// Schema returns a JSON Schema that all sampled calls of the event satisfy. Fields that occur in all
// calls are required. Strings with few, repeated values are enumerations.
func (e *Event) Schema() *Schema {
	root := &Schema{Type: "object"}
	for i := range e.Properties {
		p := &e.Properties[i]
		root.at(p.steps[:len(p.steps)-1]).add(p, e.holders(p))
	}
	if e.Others > 0 || e.Cut > 0 {
		root.Description = "Some properties are missing because of size limits."
	}
	member := fields.Names[fields.Describing(e.Type)]
	whole := &Schema{
		Dialect: dialect, Title: cmp.Or(e.Name, e.Type),
		Description: fmt.Sprintf("Learned from %d of %d calls of source %s.", e.Sampled, e.Calls, e.Source),
		Type:        "object", Required: []string{"type"},
		Properties: map[string]*Schema{"type": {Const: e.Type}, member: root},
	}
	if name := fields.Names[fields.TypeNamed(e.Type).Title]; name != "" && e.Name != "" {
		whole.Properties[name] = &Schema{Const: e.Name}
		whole.Required = append(whole.Required, name)
	}
	if len(root.Required) > 0 {
		whole.Required = append(whole.Required, member)
	}
	return whole
}

// holders returns the number of sampled objects that may contain the property.
func (e *Event) holders(p *Property) uint64 {
	steps := p.steps[:len(p.steps)-1]
	if len(steps) == 0 {
		return e.Sampled
	}
	for i := range e.Properties {
		if holder := &e.Properties[i]; slices.Equal(holder.steps, steps) {
			for _, t := range holder.Types {
				if t.Name == "object" {
					return t.Count
				}
			}
		}
	}
	return 0
}

// at returns the schema at a path, and creates it if it is missing.
func (s *Schema) at(steps []string) *Schema {
	for _, step := range steps {
		if step == element {
			if s.Items == nil {
				s.Items = &Schema{}
			}
			s = s.Items
			continue
		}
		if s.Properties == nil {
			s.Properties = map[string]*Schema{}
		}
		if s.Properties[step] == nil {
			s.Properties[step] = &Schema{}
		}
		s = s.Properties[step]
	}
	return s
}

// add adds a property to the schema of its parent. holders is the number of sampled parents.
func (s *Schema) add(p *Property, holders uint64) {
	last := p.steps[len(p.steps)-1]
	own := s.at([]string{last})
	types := p.typeNames()
	own.Type = types
	if len(types) == 1 {
		own.Type = types[0]
	}
	if last != element && p.Values == holders {
		s.Required = append(s.Required, last)
		slices.Sort(s.Required)
	}
	if len(types) != 1 || types[0] != "string" {
		return
	}
	if form := p.format(); form != "" && form != "number" {
		own.Format = form
	} else if p.isEnum() {
		for _, v := range p.Common {
			own.Enum = append(own.Enum, v.JSON)
		}
		slices.SortFunc(own.Enum, func(a, b json.RawMessage) int { return bytes.Compare(a, b) })
	}
}

// typeNames returns the names of JSONTypes, sorted.
func (p *Property) typeNames() []string {
	var names []string
	for _, t := range p.JSONTypes() {
		names = append(names, t.Name)
	}
	slices.Sort(names)
	return names
}

// format returns the format of a property if all its strings have the same format.
func (p *Property) format() string {
	for _, t := range p.Types {
		if t.Name == "string" && len(t.Formats) == 1 && t.Formats[0].Count == t.Count {
			return t.Formats[0].Name
		}
	}
	return ""
}

// isEnum reports whether the property has few values, which are repeated.
func (p *Property) isEnum() bool {
	return len(p.Common) > 0 && p.OtherCount == 0 && p.Values >= enumRepeats*uint64(len(p.Common))
}

// Like returns Go code of a test that expects a call of the event. The code contains the properties
// that all sampled calls have, each with its most frequent value or a sample.
func (e *Event) Like() string {
	root := map[string]any{}
	for i := range e.Properties {
		if p := &e.Properties[i]; len(p.steps) == 1 && p.Calls == e.Sampled {
			if v, ok := e.sample(p); ok {
				root[p.steps[0]] = v
			}
		}
	}
	like := map[string]any{"type": e.Type}
	if len(root) > 0 {
		like[fields.Names[fields.Describing(e.Type)]] = root
	}
	if name := fields.Names[fields.TypeNamed(e.Type).Title]; name != "" {
		like[name] = e.Name
	}
	code := fmt.Sprintf("srv.Expect(t, mockserver.Like(%s))\n", text.GoString(laidOut(like, "\t")))
	formatted, err := format.Source([]byte(code))
	if err != nil {
		return code
	}
	return string(formatted)
}

// Text returns the schema as indented JSON.
func (s *Schema) Text() string { return laidOut(s, "  ") }

// laidOut formats JSON for display. Invisible characters are escaped.
func laidOut(v any, indent string) string {
	return string(text.PlainJSON(text.JSON(v, indent)))
}

// sample returns a value of the property, and reports whether a value is known. An object contains
// the fields that all such objects have. Arrays are omitted, because their length is unknown.
func (e *Event) sample(p *Property) (any, bool) {
	switch {
	case p.usual == "object":
		members := map[string]any{}
		for i := range e.Properties {
			m := &e.Properties[i]
			if len(m.steps) == len(p.steps)+1 && m.steps[len(p.steps)] != element && slices.Equal(m.steps[:len(p.steps)], p.steps) && m.Values == p.Values {
				if v, ok := e.sample(m); ok {
					members[m.steps[len(p.steps)]] = v
				}
			}
		}
		return members, true
	case len(p.Common) > 0:
		return p.Common[0].JSON, true
	case p.usual == "null":
		return nil, true
	}
	for _, s := range p.Samples {
		if !strings.HasSuffix(string(s.JSON), `…"`) {
			return s.JSON, true
		}
	}
	return nil, false
}
