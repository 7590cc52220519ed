package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/plan/internal/calls"
)

// topLevel are the top-level keys of a plan file.
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
		r.wrong(root.line, "", "is "+root.kind.String()+" in place of a plan", "begin with plan: and a name")
		return
	}
	p.name, p.description = r.text(root, "plan"), r.text(root, "description")
	defs := r.defs(root.get("$defs"))
	for i := range root.members {
		m := &root.members[i]
		switch member := calls.Member(m.key); {
		case member == "properties":
			r.named(p, m.key, m.value, defs)
		case member == "traits":
			p.types[m.key] = true
			r.entry(p, &Event{Type: m.key, Line: m.line}, m.value, defs)
		case !slices.Contains(topLevel, m.key) && !strings.HasPrefix(m.key, "x-"):
			r.wrong(m.line, "", fmt.Sprintf("%q is no member of a plan", m.key), hintFor(m.key, topLevel))
		}
	}
	if len(p.types) == 0 && len(r.problems) == 0 {
		r.wrong(root.line, "", "has no calls", "there are track, identify, group, page and screen")
	}
}

// text returns the string at key, or "" if it is missing.
func (r *reader) text(n *node, key string) string {
	v := n.get(key)
	if v == nil || v.kind == nullNode {
		return ""
	}
	if v.kind != stringNode {
		r.wrong(v.line, "", fmt.Sprintf("%s is %s in place of a string", key, v.kind), "")
	}
	return v.text
}

// defs reads the plan's $defs.
func (r *reader) defs(defs *node) *node {
	if defs == nil {
		return nil
	}
	if defs.kind != objectNode {
		r.wrong(defs.line, "$defs", "is "+defs.kind.String(), "write a mapping from names to schemas")
		return nil
	}
	for i := range defs.members {
		r.expand(defs.members[i].value, "$defs "+strconv.Quote(defs.members[i].key), true)
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
		r.wrong(section.line, callType, "is "+section.kind.String(), "write a mapping from names to what their calls have")
		return
	}
	for i := range section.members {
		m := &section.members[i]
		r.entry(p, &Event{Type: callType, Name: m.key, Line: m.line}, m.value, defs)
	}
}

// entry reads one entry.
func (r *reader) entry(p *Plan, e *Event, n, defs *node) {
	name := e.String()
	e.File, e.Member = r.file, calls.Member(e.Type)
	if n.kind == nullNode {
		n = &node{kind: objectNode, line: e.Line}
	}
	if n.kind != objectNode {
		r.wrong(n.line, name, "is "+n.kind.String(), "write a mapping with "+e.Member)
		return
	}
	schema := n.get("schema")
	if schema != nil {
		for i := range n.members {
			if m := &n.members[i]; m.key != "schema" && m.key != "description" && !strings.HasPrefix(m.key, "x-") {
				r.wrong(m.line, name, fmt.Sprintf("has %s beside schema", m.key), "put it into the schema")
			}
		}
		r.expand(schema, name, false)
	} else {
		schema = r.short(e, n, defs)
	}
	e.Description = n.str("description")
	if e.Description == "" {
		e.Description = schema.str("description")
	}
	r.add(p, e, &rule{root: schema, base: []string{e.Member}, member: schema, draft: draft2020})
}

// short returns the complete schema of an entry in the short form.
func (r *reader) short(e *Event, n, defs *node) *node {
	name := e.String()
	schema := &node{kind: objectNode, line: n.line}
	for _, m := range n.members {
		if e.Member == "traits" {
			switch m.key {
			case "traits":
				m.key = "properties"
			case "properties":
				r.wrong(m.line, name, "has properties", "calls of type "+e.Type+" have traits")
				continue
			}
		}
		if m.key == "$defs" && defs != nil {
			r.wrong(m.line, name, "has $defs of its own", "put them into those of the plan")
			continue
		}
		schema.members = append(schema.members, m)
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
		r.wrong(e.Line, e.String(), "is planned twice", "")
		return
	}
	rule.entry, rule.line = e.String(), e.Line
	e.rule = rule
	p.types[e.Type] = true
	p.index[key] = e
	p.events = append(p.events, e)
}
