package shapes

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/seed-45eadc4a/analytics-go/internal/jsonscan"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// Bounds of what is remembered.
const (
	maxEvents        = 2000
	maxOfSource      = 1000     // events of one source, so that it cannot take the place of all others
	maxBytes         = 14 << 20 // of all sketches together, as they are counted
	maxEventBytes    = 88 << 10 // of one
	maxName          = 200      // bytes of an event's name
	maxKey           = 100      // bytes of a property's name
	maxMembers       = 200      // properties of one object
	maxDepth         = 5        // of objects and arrays in each other
	maxItems         = 20       // of an array that are looked at
	maxSampledValues = 500      // values of a call that are looked at
	maxValues        = 12       // different values of a property; with more they are samples
	maxSamples       = 3        // of a property with more values
	maxValue         = 48       // bytes of a value
	maxCallID        = 100      // bytes of a messageId
	maxViolations    = 20       // of the plan, different ones
)

// About how many bytes of memory things take.
const (
	eventBytes     = 500
	nodeBytes      = 260 // with its place in the map of the object that it is a member of
	kindBytes      = 48
	valueBytes     = 32
	violationBytes = 300
)

// A key tells events apart. Of identify and group calls the name is empty.
type key struct{ source, typ, name string }

// keyOf returns the event of a call. Those of some types have none.
func keyOf(c *tracking.Call) (key, bool) {
	switch c.Type {
	case "track":
		return key{c.Source, c.Type, c.Event}, true
	case "page", "screen":
		return key{c.Source, c.Type, c.Name}, true
	case "identify", "group":
		return key{c.Source, c.Type, ""}, true
	}
	return key{}, false
}

// A sketch is what is known of an event.
type sketch struct {
	key

	calls           uint64 // that came
	sampled         uint64 // of these that were looked at
	firstAt, lastAt int64  // in milliseconds
	root            node   // whose members are the properties
	others          uint64 // values of properties for which there was no room
	cut             uint64 // calls that were too large to be looked at as a whole
	violating       uint64 // calls that are not as the plan says
	violations      []violation

	bytes           int
	total           *int  // bytes of all sketches
	slot            int   // where it is written; negative: it has no place yet
	changed         bool  // since it was written
	second          int64 // in which it was looked at last
	samplesInSecond int   // how often in that second
}

// A node is what is known of a property, or of the elements of an array.
type node struct {
	calls                   uint64 // that were looked at and have it
	firstSample, lastSample uint64 // by the count of looks
	firstAt, lastAt         int64  // in milliseconds
	kinds                   []kindCount
	values                  []valueCount
	truncated               bool // there are more values than those, which are samples
	members                 map[string]*node
	items                   *node
}

// A kindCount counts the values of a kind.
type kindCount struct {
	kind   kind
	count  uint64
	lastAt int64  // in milliseconds
	call   string // the messageId of the newest call with it, where the kind is not the usual one
}

// A valueCount counts a value, as JSON. The count of one that was cut is 0.
type valueCount struct {
	json  string
	count uint64
}

// A violation is a way in which calls are not as the plan says, in the words for the first
// of them.
type violation struct {
	tracking.Violation
	calls  uint64
	lastAt int64
	call   string // the messageId of the newest
}

// take reserves n bytes for the sketch, and reports whether its limit and the limit of
// all sketches allow it.
func (s *sketch) take(n int) bool {
	if *s.total+n > maxBytes || s.bytes+n > maxEventBytes {
		return false
	}
	*s.total += n
	s.bytes += n
	return true
}

// give releases n bytes.
func (s *sketch) give(n int) {
	*s.total -= n
	s.bytes -= n
}

// count counts a value of a kind, of a call.
func (n *node) count(s *sketch, k kind, at int64, call func() string) {
	if len(n.kinds) > 0 && n.kinds[0].kind == k { // as most are
		n.kinds[0].count++
		n.kinds[0].lastAt = at
		return
	}
	i := slices.IndexFunc(n.kinds, func(c kindCount) bool { return c.kind == k })
	if i < 0 {
		id := call()
		if !s.take(kindBytes + len(id)) {
			s.others++
			return
		}
		n.kinds = append(slices.Grow(n.kinds, 1), kindCount{kind: k, call: id})
		i = len(n.kinds) - 1
	}
	c := &n.kinds[i]
	c.count++
	if i > 0 && c.lastAt < at && c.count < n.kinds[0].count {
		if id := call(); s.take(len(id) - len(c.call)) {
			c.call = id
		}
	}
	c.lastAt = at
	if i > 0 && c.count > n.kinds[0].count { // the most frequent stands first
		n.kinds[0], n.kinds[i] = n.kinds[i], n.kinds[0]
	}
}

// note notes a value that is no object and no array.
func (n *node) addValue(s *sketch, raw []byte) {
	if !n.truncated {
		for i := range n.values {
			if v := &n.values[i]; v.json == string(raw) {
				v.count++
				return
			}
		}
	}
	if n.truncated && (n.calls%256 != 0 || len(n.values) == 0) {
		return // from time to time a sample makes room for another
	}
	value, whole := canonical(raw)
	if value == "" {
		n.truncateValues(s)
		return
	}
	if i := slices.IndexFunc(n.values, func(v valueCount) bool { return v.json == value }); i >= 0 {
		n.values[i].count++
		return
	}
	if n.truncated {
		if i := int(n.calls/256) % len(n.values); s.take(len(value) - len(n.values[i].json)) {
			n.values[i] = valueCount{json: value}
		}
		return
	}
	if !whole || len(n.values) == maxValues || !s.take(valueBytes+len(value)) {
		n.truncateValues(s)
		if len(n.values) == maxSamples || !s.take(valueBytes+len(value)) {
			return
		}
	}
	v := valueCount{json: value, count: 1}
	if !whole {
		v.count = 0
	}
	n.values = append(slices.Grow(n.values, 1), v)
}

// tooMany makes of the values samples.
func (n *node) truncateValues(s *sketch) {
	n.truncated = true
	keep := min(len(n.values), maxSamples)
	for _, v := range n.values[keep:] {
		s.give(valueBytes + len(v.json))
	}
	n.values = slices.Clone(n.values[:keep])
}

// canonical copies a value in one form of JSON. A long one is cut, and is then not whole;
// one that is not UTF-8 is empty.
func canonical(raw []byte) (value string, whole bool) {
	if !utf8.Valid(raw) {
		return "", false
	}
	if raw[0] != '"' {
		if len(raw) > maxValue {
			return "", false
		}
		return string(raw), true
	}
	s := strings.ToValidUTF8(string(jsonscan.Unquote(raw)), "\uFFFD")
	short := text.CutBytes(maxValue, s)
	return string(fields.AppendString(nil, short)), short == s
}

// member returns the node of a member of an object, or nil where there is no room for it.
func (n *node) member(s *sketch, name []byte) *node {
	if m := n.members[string(name)]; m != nil {
		return m
	}
	if len(name) > maxKey || len(n.members) >= maxMembers || !utf8.Valid(name) || !s.take(nodeBytes+len(name)) {
		return nil
	}
	if n.members == nil {
		n.members = map[string]*node{}
	}
	m := &node{}
	n.members[string(name)] = m
	return m
}

// element returns the node of the elements of an array, or nil where there is no room.
func (n *node) element(s *sketch) *node {
	if n.items == nil && s.take(nodeBytes) {
		n.items = &node{}
	}
	return n.items
}

// violate counts how a call is not as the plan says.
func (s *sketch) violate(c *tracking.Call, at int64) {
	if len(c.Violations) == 0 {
		return
	}
	s.violating++
	for _, found := range c.Violations {
		i := slices.IndexFunc(s.violations, func(v violation) bool { return v.Kind == found.Kind && v.Pointer == found.Pointer })
		if i < 0 {
			if len(s.violations) == maxViolations || !s.take(violationBytes+len(found.Event)+len(found.Pointer)+len(found.Message)) {
				continue
			}
			found.Pointer, found.Message = strings.Clone(found.Pointer), strings.Clone(found.Message)
			s.violations = append(s.violations, violation{Violation: found})
			i = len(s.violations) - 1
		}
		v := &s.violations[i]
		if v.Message == "" && s.take(len(found.Message)) { // an earlier process counted it
			v.Message = strings.Clone(found.Message)
		}
		v.calls++
		v.lastAt, v.call = at, callID(c)
	}
}

// callID copies the messageId of a call; that of a call with a very long one is empty.
func callID(c *tracking.Call) string {
	if len(c.ID) > maxCallID {
		return ""
	}
	return strings.Clone(c.ID)
}

// seen notes the time of a call in the bounds of first and last.
func seen(first, last *int64, at int64) {
	if *first == 0 || at < *first {
		*first = at
	}
	*last = max(*last, at)
}
