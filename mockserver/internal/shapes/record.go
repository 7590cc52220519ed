package shapes

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
)

// recordVersion is the version of the stored format.
const recordVersion = 1

// A segment is the stored record of a few events.
type segment struct {
	state.Header
	Since  time.Time      `json:"since"` // start of counting
	Events []sketchRecord `json:"events"`
}

type sketchRecord struct {
	Slot       int          `json:"slot"`
	Source     string       `json:"source"`
	Type       string       `json:"type"`
	Name       string       `json:"name,omitempty"`
	Calls      uint64       `json:"calls"`
	Sampled    uint64       `json:"looks"`
	FirstAt    int64        `json:"first"`
	LastAt     int64        `json:"last"`
	Others     uint64       `json:"others,omitempty"`
	Cut        uint64       `json:"cut,omitempty"`
	Violating  uint64       `json:"violating,omitempty"`
	Violations []violation  `json:"violations,omitempty"`
	Members    []nodeRecord `json:"members,omitempty"`
}

// A nodeRecord is a stored node. Its JSON names are short because there are many nodes.
type nodeRecord struct {
	Name      string       `json:"n,omitempty"`
	Calls     uint64       `json:"c"`
	FirstLook uint64       `json:"fl"`
	LastLook  uint64       `json:"ll"`
	FirstAt   int64        `json:"fa"`
	LastAt    int64        `json:"la"`
	Kinds     []kindRecord `json:"k,omitempty"`
	Values    []valueCount `json:"v,omitempty"`
	Many      bool         `json:"x,omitempty"`
	Members   []nodeRecord `json:"m,omitempty"`
	Items     *nodeRecord  `json:"i,omitempty"`
}

type kindRecord struct {
	Type   string `json:"t"`
	Form   string `json:"f,omitempty"`
	Count  uint64 `json:"c"`
	LastAt int64  `json:"l"`
	Call   string `json:"m,omitempty"`
}

// record returns the record of a sketch.
func (s *sketch) record() sketchRecord {
	r := sketchRecord{
		Slot: s.slot, Source: s.source, Type: s.typ, Name: s.name, Calls: s.calls, Sampled: s.sampled, FirstAt: s.firstAt, LastAt: s.lastAt,
		Others: s.others, Cut: s.cut, Violating: s.violating, Members: s.root.records(),
	}
	for _, v := range s.violations {
		v.Message = "" // the message may contain a value
		r.Violations = append(r.Violations, v)
	}
	return r
}

// records returns the records of an object's fields, sorted by name.
func (n *node) records() []nodeRecord {
	var all []nodeRecord
	for _, name := range slices.Sorted(maps.Keys(n.members)) {
		r := n.members[name].record()
		r.Name = name
		all = append(all, r)
	}
	return all
}

func (n *node) record() nodeRecord {
	r := nodeRecord{Calls: n.calls, FirstLook: n.firstSample, LastLook: n.lastSample, FirstAt: n.firstAt, LastAt: n.lastAt, Many: n.truncated, Members: n.records()}
	for _, k := range n.kinds {
		r.Kinds = append(r.Kinds, kindRecord{kindNames[k.kind].typ, kindNames[k.kind].format, k.count, k.lastAt, k.call})
	}
	for _, v := range n.values {
		if !n.truncated && v.Count > 1 && isPublic(v.JSON) {
			r.Values = append(r.Values, v)
		}
	}
	if n.items != nil {
		items := n.items.record()
		r.Items = &items
	}
	return r
}

// isPublic reports whether a value may be stored. Email addresses may not.
func isPublic(json string) bool { return !strings.Contains(json, "@") }

// merge adds a stored sketch.
func (s *sketch) merge(from *sketchRecord) {
	s.root.shift(from.Sampled)
	s.calls += from.Calls
	s.sampled += from.Sampled
	seen(&s.firstAt, &s.lastAt, from.FirstAt)
	seen(&s.firstAt, &s.lastAt, from.LastAt)
	s.others += from.Others
	s.cut += from.Cut
	s.violating += from.Violating
	for _, stored := range from.Violations {
		if v := s.violationLike(stored.Violation); v != nil {
			v.Calls += stored.Calls
			if stored.LastAt > v.LastAt {
				v.LastAt, v.Call = stored.LastAt, stored.Call
			}
		}
	}
	s.mergeMembers(&s.root, from.Members, 1)
}

// shift renumbers samples so that they follow earlier samples.
func (n *node) shift(samples uint64) {
	if n.calls > 0 {
		n.firstSample += samples
		n.lastSample += samples
	}
	for _, m := range n.members {
		m.shift(samples)
	}
	if n.items != nil {
		n.items.shift(samples)
	}
}

func (s *sketch) mergeMembers(into *node, from []nodeRecord, depth int) {
	for i := range from {
		m := into.member(s, []byte(from[i].Name))
		if m == nil {
			s.others += from[i].Calls
			continue
		}
		s.mergeNode(m, &from[i], depth)
	}
}

func (s *sketch) mergeNode(n *node, from *nodeRecord, depth int) {
	if from.Calls > 0 {
		n.calls += from.Calls
		n.firstSample = from.FirstLook
		n.lastSample = max(n.lastSample, from.LastLook)
		seen(&n.firstAt, &n.lastAt, from.FirstAt)
		seen(&n.firstAt, &n.lastAt, from.LastAt)
	}
	for _, k := range from.Kinds {
		s.mergeKind(n, k)
	}
	for _, v := range from.Values {
		if !n.truncated && !n.countValue(s, v.JSON, v.Count) {
			n.truncateValues(s)
		}
	}
	if from.Many && !n.truncated {
		n.truncateValues(s)
	}
	if depth >= maxDepth {
		return
	}
	s.mergeMembers(n, from.Members, depth+1)
	if from.Items != nil {
		if items := n.element(s); items != nil {
			s.mergeNode(items, from.Items, depth+1)
		}
	}
}

func (s *sketch) mergeKind(n *node, from kindRecord) {
	k := slices.IndexFunc(kindNames[:], func(name struct{ typ, format string }) bool { return name.typ == from.Type && name.format == from.Form })
	if k < 0 {
		return // a record of another version
	}
	i := n.indexOf(s, kind(k), func() string { return from.Call })
	if i < 0 {
		return
	}
	n.kinds[i].count += from.Count
	n.kinds[i].lastAt = max(n.kinds[i].lastAt, from.LastAt)
	slices.SortStableFunc(n.kinds, func(a, b kindCount) int { return cmp.Compare(b.count, a.count) })
}
