package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/plan/internal/input"
)

// isExport reports whether a file is an export of another tracking plan service. There
// are two formats: {"data":{"rules":[{"key","type","jsonSchema"}]}} and
// {"rules":{"events":[{"name","eventType","rules"}],"identify":{…}}}. In the first one,
// the object data or the list of rules may also be the whole file.
func isExport(root *node) bool {
	return root.kind == arrayNode || exportRules(root) != nil
}

// exportObjects returns the objects that can contain the rules and the name of a plan. Some may be nil.
func exportObjects(root *node) []*node {
	return []*node{root, root.get("data"), root.get("trackingPlan"), root.get("data").get("trackingPlan")}
}

func exportRules(root *node) *node {
	for _, n := range exportObjects(root) {
		if rules := n.get("rules"); rules != nil {
			return rules
		}
	}
	if root.kind == arrayNode {
		return root
	}
	return nil
}

// export reads an export. Its schemas describe whole calls, and use draft-07 by default.
func (r *reader) export(p *Plan, root *node) {
	for _, n := range exportObjects(root) {
		for _, key := range []string{"name", "display_name"} {
			if name := n.str(key); name != "" {
				p.name = name
			}
		}
		if description := r.text(n, "description"); description != "" {
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
		r.problem(rules.line, "", "rules must be a list or a mapping, not "+rules.kind.String(), "")
	}
}

// ruleList reads rules in the format {key, type, jsonSchema}. If an event has several
// versions, the newest is used.
func (r *reader) ruleList(p *Plan, rules *node) {
	newest := map[eventKey]int{}
	chosen := map[eventKey]*node{}
	var order []eventKey
	for i, item := range rules.items {
		callType := strings.ToLower(item.str("type"))
		key := eventKey{callType, item.str("key")}
		if name := item.get("jsonSchema").get("eventMetadata").str("name"); name != "" {
			key.name = name // the key in Typewriter files has no #
		}
		switch {
		case callType == "common", input.Member(callType) == "traits":
			key.name = ""
		case input.Member(callType) == "":
			r.problem(item.line, fmt.Sprintf("rule %d", i+1), fmt.Sprintf("has the unknown type %q", item.str("type")), "use TRACK, IDENTIFY, GROUP, PAGE, SCREEN or COMMON")
			continue
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
		e := &Event{Type: key.callType, Name: key.name, Line: item.line, Description: r.text(item, "description")}
		r.exported(p, e, item.get("jsonSchema"), "jsonSchema")
	}
}

// ruleObject reads rules in the format {events, identify, group, global}.
func (r *reader) ruleObject(p *Plan, rules *node) {
	for i := range rules.fields {
		m := &rules.fields[i]
		switch m.key {
		case "events":
			for _, item := range m.value.items {
				r.ruleEvent(p, item)
			}
		case "identify", "group":
			if m.value.kind == objectNode && len(m.value.fields) > 0 {
				r.exported(p, &Event{Type: m.key, Line: m.line}, m.value, m.key)
			}
		case "global":
			if m.value.kind == objectNode && len(m.value.fields) > 0 {
				r.commonRule(p, m.value, m.line)
			}
		}
	}
}

// ruleEvent reads an event in the format {name, eventType, rules}. Protocols omits
// eventType because all events are track calls. RudderStack includes it, with an empty
// name except for track calls.
func (r *reader) ruleEvent(p *Plan, item *node) {
	e := &Event{Type: "track", Name: item.str("name"), Line: item.line, Description: r.text(item, "description")}
	if eventType := item.str("eventType"); eventType != "" {
		e.Type = strings.ToLower(eventType)
	}
	switch e.Type {
	case "track":
		if e.Name == "" {
			r.problem(item.line, "events", "has a track event without a name", "")
			return
		}
	case "identify", "group":
		e.Name = ""
	case "page", "screen":
	default:
		r.problem(item.line, "events", fmt.Sprintf("has the unknown eventType %q", e.Type), "use track, identify, group, page or screen")
		return
	}
	r.exported(p, e, item.get("rules"), "rules")
}

// exported adds an event. Its schema describes the whole call, or only the properties or traits.
func (r *reader) exported(p *Plan, e *Event, schema *node, key string) {
	e.File, e.Member = r.file, input.Member(e.Type)
	if schema == nil || schema.kind != objectNode {
		r.problem(e.Line, e.String(), "has no "+key, "an export needs one for each event")
		return
	}
	r.expand(schema, e.String(), false)
	if e.Description == "" {
		e.Description = schema.str("description")
	}
	if describesMember(schema) {
		removeCallRequired(schema)
		r.add(p, e, &rule{root: schema, base: []string{e.Member}, member: schema, draft: draft7})
		return
	}
	member := schema.get("properties").get(e.Member)
	if member == nil || member.kind != objectNode {
		member = &node{kind: objectNode, line: schema.line}
	}
	r.add(p, e, &rule{root: schema, member: member, draft: draft7})
}

// callFields contains the top-level fields of a call.
var callFields = []string{
	"anonymousId", "category", "channel", "context", "event", "groupId", "integrations",
	"messageId", "name", "originalTimestamp", "previousId", "projectId", "properties",
	"receivedAt", "sentAt", "timestamp", "traits", "type", "userId", "version", "writeKey",
}

// describesMember reports whether a schema describes a call's properties or traits
// instead of the whole call. Typewriter 8 and later write such schemas to plan.json and mark them
// with eventMetadata. An unmarked schema describes properties if it has a property that is not a
// field of a call, and if it has no properties named properties, traits or context.
func describesMember(schema *node) bool {
	if schema.get("eventMetadata") != nil {
		return true
	}
	properties := schema.get("properties")
	for _, field := range []string{"properties", "traits", "context"} {
		if properties.get(field) != nil {
			return false
		}
	}
	return properties != nil && slices.ContainsFunc(properties.fields, func(m field) bool {
		return !slices.Contains(callFields, m.key)
	})
}

// removeCallRequired removes the required list for the whole call. Typewriter keeps this list if
// the properties have no required list.
func removeCallRequired(schema *node) {
	required := schema.get("required")
	if slices.Contains(required.stringValues(), "properties") && schema.get("properties").get("properties") == nil {
		schema.remove("required")
	}
}

// commonRule sets the rule that applies to every call.
func (r *reader) commonRule(p *Plan, schema *node, line int) {
	if schema == nil || schema.kind != objectNode || p.common != nil {
		r.problem(line, "common", "must have a schema and occur only once", "")
		return
	}
	r.expand(schema, "common", false)
	p.common = &rule{root: schema, member: schema, draft: draft7, entry: "common", line: line}
}
