package plan

import (
	"fmt"
	"strconv"
	"strings"
)

// isExport reports whether a file is an export of the service's Protocols. There are
// two: {"data":{"rules":[{"key","type","jsonSchema"}]}}, also without data, or the list
// alone; and {"rules":{"events":[{"name","rules"}],"identify":{…},"group":{…}}}.
func isExport(root *node) bool {
	return root.kind == arrayNode || exportRules(root) != nil
}

func exportRules(root *node) *node {
	for _, n := range []*node{root, root.get("data"), root.get("trackingPlan"), root.get("data").get("trackingPlan")} {
		if rules := n.get("rules"); rules != nil {
			return rules
		}
	}
	if root.kind == arrayNode {
		return root
	}
	return nil
}

// export reads an export of Protocols. Its schemas are draft-07 unless they say
// otherwise, and describe whole calls.
func (r *reader) export(p *Plan, root *node) {
	for _, n := range []*node{root, root.get("data"), root.get("data").get("trackingPlan")} {
		for _, key := range []string{"name", "display_name"} {
			if name := n.str(key); name != "" {
				p.name = name
			}
		}
		if description := n.str("description"); description != "" {
			p.description = description
		}
	}
	p.types["track"] = true
	switch rules := exportRules(root); rules.kind {
	case arrayNode:
		r.ruleList(p, rules)
	case objectNode:
		r.ruleObject(p, rules)
	default:
		r.wrong(rules.line, "", "rules is "+rules.kind.String(), "an export of Protocols has a list or an object")
	}
}

// ruleList reads rules of the form {key, type, jsonSchema}. Of several versions of an
// event the newest counts.
func (r *reader) ruleList(p *Plan, rules *node) {
	newest := map[eventKey]int{}
	chosen := map[eventKey]*node{}
	var order []eventKey
	for i, item := range rules.items {
		callType := strings.ToLower(item.str("type"))
		key := eventKey{callType, item.str("key")}
		if callType != "common" && memberOf(callType) == "" {
			r.wrong(item.line, fmt.Sprintf("rule %d", i+1), fmt.Sprintf("has the type %q", item.str("type")), "there are TRACK, IDENTIFY, GROUP, PAGE, SCREEN and COMMON")
			continue
		}
		if callType == "identify" || callType == "group" || callType == "common" {
			key.name = ""
		}
		version := 0
		if v := item.get("version"); v != nil {
			version, _ = strconv.Atoi(v.text)
		}
		if chosen[key] == nil {
			order = append(order, key)
		} else if version <= newest[key] {
			continue
		}
		newest[key], chosen[key] = version, item
	}
	for _, key := range order {
		item := chosen[key]
		if key.callType == "common" {
			r.commonRule(p, item.get("jsonSchema"), item.line)
			continue
		}
		e := &Event{Type: key.callType, Name: key.name, Line: item.line, Description: item.str("description")}
		r.exported(p, e, item.get("jsonSchema"), "jsonSchema")
	}
}

// ruleObject reads rules of the form {events, identify, group, global}.
func (r *reader) ruleObject(p *Plan, rules *node) {
	for i := range rules.members {
		m := &rules.members[i]
		switch m.key {
		case "events":
			for _, item := range m.value.items {
				e := &Event{Type: "track", Name: item.str("name"), Line: item.line, Description: item.str("description")}
				if e.Name == "" {
					r.wrong(item.line, "events", "has an event without a name", "")
					continue
				}
				r.exported(p, e, item.get("rules"), "rules")
			}
		case "identify", "group":
			if m.value.kind == objectNode && len(m.value.members) > 0 {
				r.exported(p, &Event{Type: m.key, Line: m.line}, m.value, m.key)
			}
		case "global":
			if m.value.kind == objectNode && len(m.value.members) > 0 {
				r.commonRule(p, m.value, m.line)
			}
		}
	}
}

// exported adds an event whose schema describes the whole call.
func (r *reader) exported(p *Plan, e *Event, schema *node, key string) {
	e.File, e.Member = r.file, memberOf(e.Type)
	if schema == nil || schema.kind != objectNode {
		r.wrong(e.Line, e.String(), "has no "+key, "an export of Protocols has one for each event")
		return
	}
	r.expand(schema, e.String(), false)
	if e.Description == "" {
		e.Description = schema.str("description")
	}
	member := schema.get("properties").get(e.Member)
	if member == nil || member.kind != objectNode {
		member = &node{kind: objectNode, line: schema.line}
	}
	r.add(p, e, &rule{root: schema, member: member, draft: draft7})
}

// commonRule sets what holds for every call.
func (r *reader) commonRule(p *Plan, schema *node, line int) {
	if schema == nil || schema.kind != objectNode || p.common != nil {
		r.wrong(line, "common", "has no schema, or is not the only one", "")
		return
	}
	r.expand(schema, "common", false)
	p.common = &rule{root: schema, member: schema, draft: draft7, entry: "common", line: line}
}
