package shapes

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// An Event describes the calls of an event. It is identified by source, type and name.
type Event struct {
	ID         string      `json:"id"` // digest of the next three fields
	Source     string      `json:"source"`
	Type       string      `json:"type"`
	Name       string      `json:"event"` // name of the event, page or screen; empty for identify and group calls
	Calls      uint64      `json:"calls"`
	Sampled    uint64      `json:"lookedAt"` // sampled calls; the counts of properties and values refer to them
	FirstSeen  time.Time   `json:"firstSeen"`
	LastSeen   time.Time   `json:"lastSeen"`
	Violating  uint64      `json:"violating"` // calls that violate the tracking plan
	Anomalies  []Anomaly   `json:"oddities"`
	Properties []Property  `json:"properties"` // properties or traits, in depth-first order
	Violations []Violation `json:"violations"`
	Others     uint64      `json:"others"` // values of properties beyond the limits
	Cut        uint64      `json:"cut"`    // calls too large to be sampled completely
}

// Traits reports whether the properties are traits.
func (e *Event) Traits() bool { return fields.Describing(e.Type) == fields.Traits }

// A Property describes a property of an event.
type Property struct {
	Path       string    `json:"path"`  // for example items[].price
	Calls      uint64    `json:"calls"` // number of sampled calls with the property
	Share      float64   `json:"share"` // Calls divided by the number of sampled calls of the event
	FirstSeen  time.Time `json:"firstSeen"`
	LastSeen   time.Time `json:"lastSeen"`
	Values     uint64    `json:"values"` // number of sampled values; a call has several if the property is in an array
	Types      []Type    `json:"types"`  // most frequent first
	Common     []Value   `json:"commonValues,omitempty"`
	Samples    []Value   `json:"samples,omitempty"`    // examples, if there are too many distinct values
	OtherCount uint64    `json:"otherCount,omitempty"` // number of values that are not in Common

	Depth   int    `json:"-"` // nesting depth, from 0
	Sampled uint64 `json:"-"` // number of sampled calls of the event

	steps   []string // path as a list of field names; the constant element stands for array elements
	usual   string   // name of the most frequent type
	missing uint64   // number of sampled calls after the property's last occurrence
	before  uint64   // number of sampled calls before the property's first occurrence
}

// A Type counts the values of a JSON type.
type Type struct {
	Name     string    `json:"name"` // type name in JSON Schema
	Count    uint64    `json:"count"`
	Share    float64   `json:"share"` // share of the property's values, 0 to 1
	LastSeen time.Time `json:"lastSeen"`
	Call     string    `json:"messageId,omitempty"` // messageId of the newest known call with this type; only for unusual types
	Formats  []Format  `json:"forms,omitempty"`
}

// JSONTypes returns the types of the values, the most frequent first. If both integers and other numbers
// occur, it counts them together as numbers, because senders may write 3 or 3.0. Only Count is their sum.
func (p *Property) JSONTypes() []Type {
	types := slices.Clone(p.Types)
	index := func(name string) int { return slices.IndexFunc(types, func(t Type) bool { return t.Name == name }) }
	if i, n := index("integer"), index("number"); i >= 0 && n >= 0 {
		types[n].Count += types[i].Count
		types = slices.Delete(types, i, i+1)
		slices.SortStableFunc(types, mostFirst)
	}
	return types
}

func mostFirst(a, b Type) int { return cmp.Compare(b.Count, a.Count) }

// A Format counts the strings with a format.
type Format struct {
	Name  string  `json:"name"` // format name in JSON Schema, or "number"
	Count uint64  `json:"count"`
	Share float64 `json:"share"` // share of the strings, 0 to 1
}

// A Value is a value of a property. Count is 0 for a sample.
type Value struct {
	JSON  json.RawMessage `json:"value"` // strings are truncated to 48 bytes
	Count uint64          `json:"count,omitempty"`
}

// An Anomaly is a likely mistake in the calls of an event. For example, a property is usually a
// number and sometimes a string.
type Anomaly struct {
	Kind  AnomalyKind `json:"kind"`
	Path  string      `json:"path,omitempty"` // path of the property; empty if the anomaly is in the event's name
	Text  string      `json:"text"`           // a sentence without the final period
	Type  string      `json:"type,omitempty"` // unusual type
	Value string      `json:"value,omitempty"`
	Other string      `json:"other,omitempty"` // similar property, or ID of the similar event
}

// An AnomalyKind is a kind of anomaly.
type AnomalyKind string

// Kinds of anomalies.
const (
	MixedTypes        AnomalyKind = "mixed_types"
	SimilarValues     AnomalyKind = "values_alike"
	SimilarProperties AnomalyKind = "properties_alike"
	SimilarEvents     AnomalyKind = "events_alike"
	PropertyGone      AnomalyKind = "property_gone"
	PropertyNew       AnomalyKind = "property_new"
)

// A Violation counts calls that violate the tracking plan in the same way.
type Violation struct {
	tracking.Violation
	Calls    uint64    `json:"calls"`
	LastSeen time.Time `json:"lastSeen"`
	Call     string    `json:"messageId,omitempty"` // messageId of the newest call
}

// id returns the ID of an event, which does not change after a restart.
func (k key) id() string { return text.Digest(k.source, k.typ, k.name) }

func timeOf(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

func share(n, of uint64) float64 { return float64(n) / float64(max(of, 1)) }

// view returns a description of a sketch, without anomalies.
func (s *sketch) view() Event {
	e := Event{
		ID: s.id(), Source: s.source, Type: s.typ, Name: s.name, Calls: s.calls, Sampled: s.sampled,
		FirstSeen: timeOf(s.firstAt), LastSeen: timeOf(s.lastAt), Violating: s.violating, Others: s.others, Cut: s.cut,
		Anomalies: []Anomaly{}, Properties: []Property{}, Violations: []Violation{},
	}
	for _, v := range s.violations {
		v.Message = cmp.Or(v.Message, strings.TrimPrefix(v.Pointer+": "+v.Kind, ": "))
		e.Violations = append(e.Violations, Violation{v.Violation, v.Calls, timeOf(v.LastAt), v.Call})
	}
	e.addMembers(&s.root, nil, "", 0)
	return e
}

// addMembers adds the fields of an object, the most frequent first.
func (e *Event) addMembers(n *node, steps []string, path string, depth int) {
	names := slices.SortedFunc(maps.Keys(n.members), func(a, b string) int {
		m, other := n.members[a], n.members[b]
		return cmp.Or(cmp.Compare(other.calls, m.calls), cmp.Compare(m.firstSample, other.firstSample), strings.Compare(a, b))
	})
	e.Properties = slices.Grow(e.Properties, len(names))
	for _, name := range names {
		e.addNode(n.members[name], append(slices.Clip(steps), name), fieldPath(path, name), depth)
	}
}

// element is the step from an array to its elements in a path. It is not valid UTF-8, so it differs
// from all field names.
const element = "\xff"

func (e *Event) addNode(n *node, steps []string, path string, depth int) {
	if n.calls > 0 {
		e.Properties = append(e.Properties, n.view(steps, path, depth, e.Sampled))
	}
	e.addMembers(n, steps, path, depth+1)
	if n.items != nil {
		e.addNode(n.items, append(slices.Clip(steps), element), path+"[]", depth+1)
	}
}

// fieldPath appends a field name to a path, in quotes if necessary.
func fieldPath(path, name string) string {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r == '.' || r == '[' || r == ']' || r == '"' || r < ' ' }) {
		return path + "[" + strconv.Quote(name) + "]"
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

func (n *node) view(steps []string, path string, depth int, sampled uint64) Property {
	p := Property{
		Path: path, Calls: n.calls, Share: share(n.calls, sampled), FirstSeen: timeOf(n.firstAt), LastSeen: timeOf(n.lastAt),
		steps: steps, before: n.firstSample - 1, missing: sampled - n.lastSample, Depth: depth, Sampled: sampled,
	}
	scalars := uint64(0)
	for _, c := range n.kinds {
		p.Values += c.count
		if c.kind != nullKind && c.kind != objectKind && c.kind != arrayKind {
			scalars += c.count
		}
	}
	p.Types = n.types(p.Values)
	for i := range p.Types {
		if t := &p.Types[i]; p.usual == "" || p.usual == "null" {
			p.usual = t.Name
		}
	}
	for _, v := range n.values {
		value := Value{JSON: json.RawMessage(v.JSON)}
		if n.truncated {
			p.Samples = append(p.Samples, value)
			continue
		}
		value.Count = v.Count
		p.Common = append(p.Common, value)
		scalars -= min(v.Count, scalars)
	}
	p.OtherCount = scalars
	slices.SortStableFunc(p.Common, func(a, b Value) int { return -cmp.Compare(a.Count, b.Count) })
	return p
}

// types returns the counts by type, each with its formats.
func (n *node) types(values uint64) []Type {
	var types []Type
	for _, c := range n.kinds {
		name := kindNames[c.kind]
		i := slices.IndexFunc(types, func(t Type) bool { return t.Name == name.typ })
		if i < 0 {
			i, types = len(types), append(types, Type{Name: name.typ})
		}
		t := &types[i]
		t.Count += c.count
		if at := timeOf(c.lastAt); at.After(t.LastSeen) || t.Call == "" {
			t.LastSeen, t.Call = at, c.call
		}
		if name.format != "" {
			t.Formats = append(t.Formats, Format{Name: name.format, Count: c.count})
		}
	}
	slices.SortStableFunc(types, mostFirst)
	for i := range types {
		t := &types[i]
		t.Share = share(t.Count, values)
		for j := range t.Formats {
			t.Formats[j].Share = share(t.Formats[j].Count, t.Count)
		}
		slices.SortStableFunc(t.Formats, func(a, b Format) int { return -cmp.Compare(a.Count, b.Count) })
		if i == 0 {
			t.Call = "" // any call has the usual type
		}
	}
	return types
}
