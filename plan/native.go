package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/plan/internal/input"
)

// topLevel contains the top-level keys of a plan file.
var topLevel = []string{"plan", "description", "version", "$defs", "track", "identify", "group", "page", "screen"}

func (r *reader) plan(root *node) *Plan {
	p := &Plan{file: r.file, index: map[eventKey]*Event{}, types: map[string]bool{}}
	if isExport(root) {
		r.export(p, root)
	} else {
		r.native(p, root)
	}
	if len(r.problems) == 0 {
		r.compile(p)
	}
	return p
}

// native reads a plan in this package's own format.
func (r *reader) native(p *Plan, root *node) {
	if root.kind != objectNode {
		r.problem(root.line, "", "must be a mapping, not "+root.kind.String(), "start with plan: NAME")
		return
	}
	p.name, p.description = r.text(root, "plan"), r.text(root, "description")
	defs := r.defs(root.get("$defs"))
	for i := range root.fields {
		m := &root.fields[i]
		switch member := input.Member(m.key); {
		case member == "properties":
			r.named(p, m.key, m.value, defs)
		case member == "traits":
			p.types[m.key] = true
			r.entry(p, &Event{Type: m.key, Line: m.line}, m.value, defs)
		case !slices.Contains(topLevel, m.key) && !strings.HasPrefix(m.key, "x-"):
			r.problem(m.line, "", fmt.Sprintf("unknown key %q", m.key), hintFor(m.key, topLevel))
		}
	}
	if len(p.types) == 0 && len(r.problems) == 0 {
		r.problem(root.line, "", "describes no calls", "add track, identify, group, page or screen")
	}
}

// text returns the string at key, or "" if it is missing.
func (r *reader) text(n *node, key string) string {
	v := n.get(key)
	if v == nil || v.kind == nullNode {
		return ""
	}
	if v.kind != stringNode {
		r.problem(v.line, "", fmt.Sprintf("%s must be a string, not %s", key, v.kind), "")
	}
	return v.text
}

// defs reads the plan's $defs.
func (r *reader) defs(defs *node) *node {
	if defs == nil {
		return nil
	}
	if defs.kind != objectNode {
		r.problem(defs.line, "$defs", "must be a mapping from names to schemas, not "+defs.kind.String(), "")
		return nil
	}
	for i := range defs.fields {
		r.expand(defs.fields[i].value, "$defs "+strconv.Quote(defs.fields[i].key), true)
	}
	return defs
}

// named reads the section track, page or screen.
func (r *reader) named(p *Plan, callType string, section, defs *node) {
	p.types[callType] = true
	if section.kind == nullNode {
		return
	}
	if section.kind != objectNode {
		r.problem(section.line, callType, "must be a mapping from names to entries, not "+section.kind.String(), "")
		return
	}
	for i := range section.fields {
		m := &section.fields[i]
		r.entry(p, &Event{Type: callType, Name: m.key, Line: m.line}, m.value, defs)
	}
}

// entry reads one entry.
func (r *reader) entry(p *Plan, e *Event, n, defs *node) {
	name := e.String()
	e.File, e.Member = r.file, input.Member(e.Type)
	if n.kind == nullNode {
		n = &node{kind: objectNode, line: e.Line}
	}
	if n.kind != objectNode {
		r.problem(n.line, name, "must be a mapping, not "+n.kind.String(), "describe the "+e.Member+" in it")
		return
	}
	schema := n.get("schema")
	if schema != nil {
		for i := range n.fields {
			if m := &n.fields[i]; m.key != "schema" && m.key != "description" && !strings.HasPrefix(m.key, "x-") {
				r.problem(m.line, name, fmt.Sprintf("has %s next to schema", m.key), "move it into schema")
			}
		}
		r.expand(schema, name, false)
	} else {
		schema = r.short(e, n, defs)
	}
	if schema == n.get("schema") { // in the short form, the description is part of the schema
		e.Description = r.text(n, "description")
	}
	if e.Description == "" {
		e.Description = schema.str("description")
	}
	r.add(p, e, &rule{root: schema, base: []string{e.Member}, member: schema, draft: draft2020})
}

// short returns the complete schema of an entry that uses the short form.
func (r *reader) short(e *Event, n, defs *node) *node {
	name := e.String()
	schema := &node{kind: objectNode, line: n.line}
	for _, m := range n.fields {
		if e.Member == "traits" {
			switch m.key {
			case "traits":
				m.key = "properties"
			case "properties":
				r.problem(m.line, name, "has properties", e.Type+" calls have traits")
				continue
			}
		}
		if m.key == "$defs" && defs != nil {
			r.problem(m.line, name, "has its own $defs", "move them to the plan's $defs")
			continue
		}
		schema.fields = append(schema.fields, m)
	}
	if properties := schema.get("properties"); properties != nil && properties.kind == nullNode {
		properties.kind = objectNode
	}
	if schema.get("type") == nil {
		schema.set("type", &node{kind: stringNode, line: n.line, text: "object"})
	}
	r.expand(schema, name, true)
	if defs != nil {
		schema.set("$defs", defs)
	}
	return schema
}

func (r *reader) add(p *Plan, e *Event, rule *rule) {
	key := eventKey{e.Type, e.Name}
	if p.index[key] != nil {
		r.problem(e.Line, e.String(), "is defined twice", "")
		return
	}
	rule.entry, rule.line = e.String(), e.Line
	e.rule = rule
	p.types[e.Type] = true
	p.index[key] = e
	p.events = append(p.events, e)
}
