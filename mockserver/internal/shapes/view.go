package shapes

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// An Event is what is known of the calls of an event: of a source, of a type and, but for
// identify and group, of a name.
type Event struct {
	ID         string      `json:"id"` // made of the next three
	Source     string      `json:"source"`
	Type       string      `json:"type"`
	Name       string      `json:"event"` // of an event, a page or a screen; empty for identify and group
	Calls      uint64      `json:"calls"`
	Sampled    uint64      `json:"lookedAt"` // of the calls: all counts of properties and values are of these
	FirstSeen  time.Time   `json:"firstSeen"`
	LastSeen   time.Time   `json:"lastSeen"`
	Violating  uint64      `json:"violating"` // calls that were not as the tracking plan says
	Anomalies  []Anomaly   `json:"oddities"`
	Properties []Property  `json:"properties"` // or traits, in the order of a tree
	Violations []Violation `json:"violations"`
	Others     uint64      `json:"others"` // values of properties for which there was no room
	Cut        uint64      `json:"cut"`    // calls that were too large to be looked at as a whole
}

// Traits reports whether the properties are traits.
func (e *Event) Traits() bool { return fields.Describing(e.Type) == fields.Traits }

// A Property is what is known of a property of an event.
type Property struct {
	Path       string    `json:"path"`  // as in items[].price
	Calls      uint64    `json:"calls"` // that have it
	Share      float64   `json:"share"` // of the calls that were looked at, 0 to 1
	FirstSeen  time.Time `json:"firstSeen"`
	LastSeen   time.Time `json:"lastSeen"`
	Values     uint64    `json:"values"` // that were looked at, of all types: arrays have several in a call
	Types      []Type    `json:"types"`  // the most frequent first
	Common     []Value   `json:"commonValues,omitempty"`
	Samples    []Value   `json:"samples,omitempty"`    // some of many different values
	OtherCount uint64    `json:"otherCount,omitempty"` // values beside the common ones

	Depth   int    `json:"-"` // nesting depth, from 0
	Sampled uint64 `json:"-"` // sampled calls of the event

	steps   []string // names of members, and element
	usual   string   // the name of the most frequent type
	missing uint64   // calls looked at since the last that has it
	before  uint64   // calls looked at before the first that has it
}

// A Type is a type of values, and the forms of strings.
type Type struct {
	Name     string    `json:"name"` // as JSON Schema names it
	Count    uint64    `json:"count"`
	Share    float64   `json:"share"` // of the property's values, 0 to 1
	LastSeen time.Time `json:"lastSeen"`
	Call     string    `json:"messageId,omitempty"` // of the newest call that is known with it; of unusual types
	Formats  []Format  `json:"forms,omitempty"`
}

// A Form is what strings look like.
type Format struct {
	Name  string  `json:"name"` // a format of JSON Schema, or number
	Count uint64  `json:"count"`
	Share float64 `json:"share"` // of the strings, 0 to 1
}

// A Value is one of a property's. The count of a sample is 0.
type Value struct {
	JSON  json.RawMessage `json:"value"` // strings are cut after 48 bytes
	Count uint64          `json:"count,omitempty"`
}

// An Anomaly is something odd about the calls of an event, such as a property that is
// mostly a number and sometimes a string.
type Anomaly struct {
	Kind  AnomalyKind `json:"kind"`
	Path  string      `json:"path,omitempty"` // of the property; empty where it is about the event's name
	Text  string      `json:"text"`           // what is odd, in one sentence without its stop
	Type  string      `json:"type,omitempty"` // the unusual type
	Value string      `json:"value,omitempty"`
	Other string      `json:"other,omitempty"` // the property or the ID of the event that is alike
}

// An AnomalyKind says for programs what is odd.
type AnomalyKind string

// Kinds of oddities.
const (
	MixedTypes        AnomalyKind = "mixed_types"
	SimilarValues     AnomalyKind = "values_alike"
	SimilarProperties AnomalyKind = "properties_alike"
	SimilarEvents     AnomalyKind = "events_alike"
	PropertyGone      AnomalyKind = "property_gone"
	PropertyNew       AnomalyKind = "property_new"
)

// A Violation is a way in which calls of an event were not as the plan of their source
// says.
type Violation struct {
	tracking.Violation
	Calls    uint64    `json:"calls"`
	LastSeen time.Time `json:"lastSeen"`
	Call     string    `json:"messageId,omitempty"` // of the newest
}

// id names an event, also after a restart.
func (k key) id() string { return text.Digest(k.source, k.typ, k.name) }

// timeOf is the other way round of UnixMilli.
func timeOf(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

func share(n, of uint64) float64 { return float64(n) / float64(max(of, 1)) }

// view shows a sketch, without what is odd.
func (s *sketch) view() Event {
	e := Event{
		ID: s.id(), Source: s.source, Type: s.typ, Name: s.name, Calls: s.calls, Sampled: s.sampled,
		FirstSeen: timeOf(s.firstAt), LastSeen: timeOf(s.lastAt), Violating: s.violating, Others: s.others, Cut: s.cut,
		Anomalies: []Anomaly{}, Properties: []Property{}, Violations: []Violation{},
	}
	for _, v := range s.violations {
		v.Message = cmp.Or(v.Message, strings.TrimPrefix(v.Pointer+": "+v.Kind, ": "))
		e.Violations = append(e.Violations, Violation{v.Violation, v.calls, timeOf(v.lastAt), v.call})
	}
	e.addMembers(&s.root, nil, "", 0)
	return e
}

// addMembers adds the members of an object, those that most calls have first.
func (e *Event) addMembers(n *node, steps []string, path string, depth int) {
	type member struct {
		name string
		*node
	}
	members := make([]member, 0, len(n.members))
	for name, m := range n.members {
		members = append(members, member{name, m})
	}
	slices.SortFunc(members, func(a, b member) int {
		return cmp.Or(-cmp.Compare(a.calls, b.calls), cmp.Compare(a.firstSample, b.firstSample), strings.Compare(a.name, b.name))
	})
	e.Properties = slices.Grow(e.Properties, len(members))
	for _, m := range members {
		e.addNode(m.node, append(slices.Clip(steps), m.name), joined(path, m.name), depth)
	}
}

// element is the step from an array to its elements. No name of a member is like it: they
// are UTF-8.
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

// joined appends the name of a member to a path, in quotes where it is not plain.
func joined(path, name string) string {
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
		value := Value{JSON: json.RawMessage(v.json)}
		if n.truncated {
			p.Samples = append(p.Samples, value)
			continue
		}
		value.Count = v.count
		p.Common = append(p.Common, value)
		scalars -= min(v.count, scalars)
	}
	p.OtherCount = scalars
	slices.SortStableFunc(p.Common, func(a, b Value) int { return -cmp.Compare(a.Count, b.Count) })
	return p
}

// types puts the forms of strings together.
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
	slices.SortStableFunc(types, func(a, b Type) int { return -cmp.Compare(a.Count, b.Count) })
	for i := range types {
		t := &types[i]
		t.Share = share(t.Count, values)
		for j := range t.Formats {
			t.Formats[j].Share = share(t.Formats[j].Count, t.Count)
		}
		slices.SortStableFunc(t.Formats, func(a, b Format) int { return -cmp.Compare(a.Count, b.Count) })
		if i == 0 {
			t.Call = "" // the usual type is in any call
		}
	}
	return types
}
