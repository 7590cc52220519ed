package plan

import (
	"fmt"
	"iter"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// A keywordKind is the kind of a keyword's value.
type keywordKind byte

const (
	unknownKeyword   keywordKind = iota
	valueKeyword                 // any value that is not a schema
	schemaKeyword                // a schema, or a list of schemas
	schemaMapKeyword             // a mapping from names to schemas
)

// A keyword describes a keyword of JSON Schema.
type keyword struct {
	kind  keywordKind
	flags keywordFlags
}

type keywordFlags byte

const (
	annotation keywordFlags = 1 << iota // never makes a value invalid
	compared                            // Diff ignores it or compares it separately
)

// keywords contains the keywords of JSON Schema 2020-12 and draft-07.
var keywords = func() map[string]keyword {
	all := map[string]keyword{}
	for _, group := range []struct {
		keyword
		names string
	}{
		{keyword{valueKeyword, annotation | compared}, "$schema $id $comment title description default examples deprecated readOnly writeOnly"},
		{keyword{valueKeyword, compared}, "$ref type enum const format multipleOf maximum exclusiveMaximum minimum exclusiveMinimum maxLength minLength pattern maxItems minItems uniqueItems maxProperties minProperties required"},
		{keyword{valueKeyword, annotation}, "$anchor $dynamicAnchor $vocabulary contentEncoding contentMediaType"},
		{keyword{valueKeyword, 0}, "$dynamicRef maxContains minContains dependentRequired"},
		{keyword{schemaMapKeyword, annotation | compared}, "$defs definitions"},
		{keyword{schemaKeyword, annotation}, "contentSchema"},
		{keyword{schemaKeyword, compared}, "items additionalProperties"},
		{keyword{schemaKeyword, 0}, "prefixItems additionalItems contains unevaluatedItems propertyNames unevaluatedProperties allOf anyOf oneOf not if then else"},
		{keyword{schemaMapKeyword, compared}, "properties"},
		{keyword{schemaMapKeyword, 0}, "patternProperties dependentSchemas dependencies"},
	} {
		for _, name := range strings.Fields(group.names) {
			all[name] = group.keyword
		}
	}
	return all
}()

// schemas yields n and all its subschemas. It includes subschemas of unknown keywords, because a
// $ref can point to them.
func (n *node) schemas() iter.Seq[*node] {
	return func(yield func(*node) bool) { n.eachSchema(yield) }
}

func (n *node) eachSchema(yield func(*node) bool) bool {
	if !yield(n) {
		return false
	}
	for _, m := range n.fields {
		for _, sub := range m.subschemas() {
			if !sub.eachSchema(yield) {
				return false
			}
		}
	}
	return true
}

// subschemas returns the schemas in the value of a keyword.
func (m field) subschemas() []*node {
	switch kind := keywords[m.key].kind; {
	case kind == schemaMapKeyword:
		var subs []*node
		for _, sub := range m.value.fields {
			subs = append(subs, sub.value)
		}
		return subs
	case kind == schemaKeyword && m.value.kind == arrayNode:
		return m.value.items
	case kind == schemaKeyword, kind == unknownKeyword && m.value.kind == objectNode:
		return []*node{m.value}
	}
	return nil
}

// constrains reports whether the rule can refuse a call. member is the field that the call has:
// "properties" or "traits".
func (rule *rule) constrains(member string) bool {
	if len(rule.base) > 0 {
		return refuses(rule.root)
	}
	// In this case, the schema describes a whole call.
	for _, m := range rule.root.fields {
		switch m.key {
		case "type": // all calls are objects
		case "properties":
			for _, field := range m.value.fields {
				if isCallField(field.key, member) && refuses(field.value) {
					return true
				}
			}
		default:
			if keywordRefuses(m) {
				return true
			}
		}
	}
	return false
}

// isCallField reports whether a call can have the given field. member is the field that the call
// has: "properties" or "traits".
func isCallField(field, member string) bool {
	if field == "properties" || field == "traits" {
		return field == member
	}
	return slices.Contains(callFields, field)
}

// refuses reports whether some value violates a schema.
func refuses(n *node) bool {
	if n.kind == boolNode {
		return !n.isTrue()
	}
	return slices.ContainsFunc(n.fields, keywordRefuses)
}

func keywordRefuses(m field) bool {
	switch m.key {
	case "required":
		return len(m.value.items) > 0
	case "properties", "patternProperties", "dependentSchemas":
		return slices.ContainsFunc(m.value.fields, func(m field) bool { return refuses(m.value) })
	case "additionalProperties", "unevaluatedProperties", "propertyNames", "additionalItems", "unevaluatedItems":
		return refuses(m.value)
	case "items":
		return refuses(m.value) || slices.ContainsFunc(m.value.items, refuses)
	}
	k := keywords[m.key]
	return k.kind != unknownKeyword && k.flags&annotation == 0
}

// expand replaces the short forms in a schema: required in a property, and empty properties. If
// strict is true, unknown keywords are problems. A misspelled keyword would check nothing.
func (r *reader) expand(schema *node, entry string, strict bool) {
	for n := range schema.schemas() {
		r.expandOne(n, entry, strict)
	}
}

func (r *reader) expandOne(n *node, entry string, strict bool) {
	if n.kind == nullNode {
		n.kind = objectNode
	}
	if strict && n.kind != objectNode && n.kind != boolNode {
		r.problem(n.line, entry, "must be a schema, not "+n.kind.String(), "for example {type: string}")
		return
	}
	if strict {
		for i := range n.fields {
			if m := &n.fields[i]; keywords[m.key].kind == unknownKeyword && !strings.HasPrefix(m.key, "x-") {
				r.problem(m.line, entry, fmt.Sprintf("unknown JSON Schema keyword %q", m.key), hintFor(m.key, slices.Sorted(maps.Keys(keywords))))
			}
		}
	}
	r.expandRequired(n, entry)
}

// expandRequired replaces required: true in properties by the required list of n.
func (r *reader) expandRequired(n *node, entry string) {
	properties := n.get("properties")
	if properties == nil || properties.kind != objectNode {
		return
	}
	required := n.get("required")
	for i := range properties.fields {
		m := &properties.fields[i]
		flag := m.value.get("required")
		if flag == nil || flag.kind != boolNode {
			continue
		}
		m.value.remove("required")
		if !flag.isTrue() {
			continue
		}
		if required == nil || required.kind != arrayNode {
			if required != nil && required.kind != boolNode {
				r.problem(required.line, entry, "required must be a list of names, not "+required.kind.String(), "")
			}
			required = &node{kind: arrayNode, line: flag.line}
			n.set("required", required)
		}
		if !slices.Contains(required.stringValues(), m.key) {
			required.items = append(required.items, &node{kind: stringNode, line: m.line, text: m.key})
		}
	}
}

// unescapeFragment decodes the percent-encoding of a URL fragment.
func unescapeFragment(s string) string {
	if text, err := url.PathUnescape(s); err == nil {
		return text
	}
	return s
}
