package plan

import (
	"encoding/json"
	"slices"
)

// A Schema is a JSON Schema as those see it who generate code from it or compare it: its
// common keywords, in the order of the file. JSON has all of it.
type Schema struct {
	Title       string
	Description string
	Deprecated  bool

	// Types are the types that a value may have: string, number, integer, boolean,
	// object, array and null. None means any, or whatever Ref says.
	Types []string

	Format string // as in date-time, email, uuid, uri; empty for none

	// Enum are the values that are allowed, of enum or the one of const, in the order of
	// the file, as encoding/json decodes them: string, bool, nil, json.Number, []any or
	// map[string]any. nil means that there is no such list.
	Enum []any

	// Properties are those of an object, in the order of the file.
	Properties []Property

	// Closed reports that an object has no other properties: additionalProperties is
	// false. Additional is the schema of the others, nil if any value will do.
	Closed     bool
	Additional *Schema

	// Items is the schema of a list's items, nil if any will do.
	Items *Schema

	// RefName is what $ref says, as in #/$defs/money, and Ref the schema that it leads
	// to, which can lead back here. Ref is nil without $ref, and for one that is no JSON
	// pointer into the same schema.
	RefName string
	Ref     *Schema

	// Line is where the schema begins in the plan's file, from 1.
	Line int

	node *node
}

// A Property is one property of an object.
type Property struct {
	Name     string
	Required bool
	Schema   *Schema // never nil
	Line     int     // of its name in the plan's file, from 1
}

// Property returns the property of a name, and whether there is one.
func (s *Schema) Property(name string) (Property, bool) {
	for _, p := range s.Properties {
		if p.Name == name {
			return p, true
		}
	}
	return Property{}, false
}

// Resolve returns the schema that a chain of $ref leads to, or s itself without one.
func (s *Schema) Resolve() *Schema {
	for range maxDepth {
		if s.Ref == nil {
			break
		}
		s = s.Ref
	}
	return s
}

// Nullable reports whether null is among the types.
func (s *Schema) Nullable() bool { return slices.Contains(s.Types, "null") }

// JSON returns the whole schema as JSON Schema, with its members in the order of the
// file, and with what the short forms stand for. Of the drafts it is the one of the file:
// 2020-12 unless $schema says otherwise.
func (s *Schema) JSON() json.RawMessage { return s.node.appendJSON(nil) }

// A schemaReader makes Schemas of nodes, one of each, so that those that refer to
// themselves come to an end.
type schemaReader struct {
	root *node
	made map[*node]*Schema
}

func newSchemaReader(root *node) *schemaReader {
	return &schemaReader{root, map[*node]*Schema{}}
}

func (r *schemaReader) schema(n *node) *Schema {
	if s := r.made[n]; s != nil {
		return s
	}
	s := &Schema{node: n, Line: n.line, Title: n.str("title"), Description: n.str("description"), Format: n.str("format"), RefName: n.str("$ref")}
	r.made[n] = s
	s.Deprecated = n.get("deprecated").isTrue()
	s.Types = n.get("type").texts()
	if list := n.get("enum"); list != nil {
		s.Enum = list.value().([]any) // checked by the metaschema
	} else if one := n.get("const"); one != nil {
		s.Enum = []any{one.value()}
	}
	if items := n.get("items"); items != nil && items.kind == objectNode {
		s.Items = r.schema(items)
	}
	r.object(s, n)
	if target := refTarget(r.root, s.RefName); target != nil {
		s.Ref = r.schema(target)
	}
	return s
}

// object reads the keywords of objects.
func (r *schemaReader) object(s *Schema, n *node) {
	required := map[string]bool{}
	if list := n.get("required"); list != nil {
		for _, name := range list.items {
			required[name.text] = true
		}
	}
	if properties := n.get("properties"); properties != nil {
		for _, m := range properties.members {
			s.Properties = append(s.Properties, Property{m.key, required[m.key], r.schema(m.value), m.line})
			delete(required, m.key)
		}
	}
	if list := n.get("required"); list != nil { // those that have no schema of their own
		for _, name := range list.items {
			if required[name.text] {
				delete(required, name.text)
				s.Properties = append(s.Properties, Property{name.text, true, &Schema{node: &node{kind: objectNode}, Line: name.line}, name.line})
			}
		}
	}
	switch additional := n.get("additionalProperties"); {
	case additional == nil:
	case additional.kind == boolNode:
		s.Closed = !additional.isTrue()
	case additional.kind == objectNode:
		s.Additional = r.schema(additional)
	}
}

// refTarget returns what a $ref of the form #/a/b leads to, or nil.
func refTarget(root *node, ref string) *node {
	if ref == "#" {
		return root
	}
	if len(ref) < 2 || ref[:2] != "#/" {
		return nil
	}
	n := root
	for _, token := range pointerTokens(unescapeFragment(ref[1:])) {
		if n, _ = n.child(token); n == nil {
			return nil
		}
	}
	return n
}
