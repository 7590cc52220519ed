package plan

import (
	"encoding/json"
	"slices"
)

// A Schema contains the common keywords of a JSON Schema, in file order. JSON returns the
// whole schema.
type Schema struct {
	Title       string
	Description string
	Deprecated  bool

	// Types contains the allowed types: string, number, integer, boolean, object, array and
	// null. If it is empty, any type is allowed, or Ref determines the types.
	Types []string

	Format string // such as date-time, email, uuid or uri; may be empty

	// Enum contains the allowed values of enum or const, in file order, as encoding/json
	// decodes them: string, bool, nil, json.Number, []any or map[string]any. It is nil
	// if the schema has neither keyword.
	Enum []any

	// Properties contains the properties of an object, in file order.
	Properties []Property

	// Closed is true if additionalProperties is false. Additional is the schema of
	// additional properties, or nil if they can have any value.
	Closed     bool
	Additional *Schema

	// Items is the schema of a list's items, or nil if they can have any value.
	Items *Schema

	// RefName is the value of $ref, such as #/$defs/money. Ref is the schema that $ref points
	// to, which may be recursive. Ref is nil if there is no $ref, or if $ref is not a JSON
	// pointer into the same schema.
	RefName string
	Ref     *Schema

	// Line is the schema's first line in the plan file, starting at 1.
	Line int

	node *node
}

// A Property is a property of an object.
type Property struct {
	Name     string
	Required bool
	Schema   *Schema // never nil
	Line     int     // line of the name in the plan file, starting at 1
}

// Property returns the property with the given name, and whether it exists.
func (s *Schema) Property(name string) (Property, bool) {
	for _, p := range s.Properties {
		if p.Name == name {
			return p, true
		}
	}
	return Property{}, false
}

// Resolve follows $ref and returns the final schema.
func (s *Schema) Resolve() *Schema {
	for range maxDepth {
		if s.Ref == nil {
			break
		}
		s = s.Ref
	}
	return s
}

// Nullable reports whether the schema lists the type null.
func (s *Schema) Nullable() bool { return slices.Contains(s.Types, "null") }

// JSON returns the whole schema as JSON Schema, with keys in file order and all short
// forms expanded. The draft is 2020-12 unless $schema says otherwise.
func (s *Schema) JSON() json.RawMessage { return s.node.appendJSON(nil) }

// A schemaReader creates one Schema per node, because schemas can be recursive.
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
	s.Types = n.get("type").stringValues()
	if list := n.get("enum"); list != nil {
		s.Enum = list.value().([]any) // the metaschema guarantees an array
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

// object reads the keywords for objects.
func (r *schemaReader) object(s *Schema, n *node) {
	required := n.get("required").stringValues()
	if properties := n.get("properties"); properties != nil {
		for _, m := range properties.fields {
			s.Properties = append(s.Properties, Property{m.key, slices.Contains(required, m.key), r.schema(m.value), m.line})
		}
	}
	for i, name := range required { // add required names that have no schema
		if _, ok := s.Property(name); !ok {
			line := n.get("required").items[i].line
			s.Properties = append(s.Properties, Property{name, true, &Schema{node: &node{kind: objectNode}, Line: line}, line})
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

// refTarget returns the target of a $ref such as #/a/b, or nil if it does not exist.
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
