package shapes

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/seed-45eadc4a/analytics-go/internal/jsonscan"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// Limits of the collected data.
const (
	maxEvents        = 2000
	maxOfSource      = 1000     // events of one source, so that other sources have room
	maxBytes         = 14 << 20 // accounted bytes of all sketches
	maxEventBytes    = 88 << 10 // accounted bytes of one sketch
	maxName          = 200      // bytes of an event's name
	maxKey           = 100      // bytes of a property's name
	maxMembers       = 200      // properties of one object
	maxDepth         = 5        // nesting of objects and arrays
	maxItems         = 20       // sampled elements of an array
	maxSampledValues = 500      // sampled values of a call
	maxValues        = 12       // distinct values of a property; beyond it, only samples are retained
	maxSamples       = 3        // samples of a property with more values
	maxValue         = 48       // bytes of a value
	maxCallID        = 100      // bytes of a messageId
	maxViolations    = 20       // distinct violations of an event
)

// Approximate memory in bytes.
const (
	eventBytes     = 500
	nodeBytes      = 260 // including its map entry
	kindBytes      = 48
	valueBytes     = 32
	violationBytes = 300
)

// A key identifies an event. The name is empty for identify and group calls.
type key struct{ source, typ, name string }

// keyOf returns the event of a call. ok is false for calls of other types.
func keyOf(c *tracking.Call) (key, bool) {
	return key{c.Source, c.Type, event.NameOf(c)}, slices.Contains(fields.EventTypes, c.Type)
}

// A sketch contains the collected data of an event.
type sketch struct {
	key

	calls           uint64 // number of calls
	sampled         uint64 // number of sampled calls
	firstAt, lastAt int64  // Unix milliseconds
	root            node   // the fields of the root are the properties
	others          uint64 // number of values of properties beyond the limits
	cut             uint64 // number of calls that were too large to be sampled completely
	violating       uint64 // number of calls that violate the plan
	violations      []violation

	bytes           int
	total           *int  // accounted bytes of all sketches
	slot            int   // index in Shapes.slots; negative before it is assigned
	changed         bool  // whether the sketch has changed since it was saved
	second          int64 // the second that samplesInSecond refers to
	samplesInSecond int   // number of samples in second
}

// A node contains the data of a property, or of the elements of an array.
type node struct {
	calls                   uint64 // number of sampled calls with the property
	firstSample, lastSample uint64 // numbers of the first and last sample with the property
	firstAt, lastAt         int64  // Unix milliseconds
	kinds                   []kindCount
	values                  []valueCount
	truncated               bool // there were too many values; values contains samples
	members                 map[string]*node
	items                   *node
}

// A kindCount counts the values of a kind.
type kindCount struct {
	kind   kind
	count  uint64
	lastAt int64  // Unix milliseconds
	call   string // messageId of the newest call with this kind, if the kind is unusual
}

// A valueCount counts a value, encoded as JSON. The count of a sample has no meaning. Only values with a
// count above 1 are stored.
type valueCount struct {
	JSON  string `json:"j"`
	Count uint64 `json:"c"`
}

// A violation counts calls that violate the plan in the same way. It contains the message of the
// first such call.
type violation struct {
	tracking.Violation        // stored without the message, which may contain a value
	Calls              uint64 `json:"calls"`
	LastAt             int64  `json:"last"`
	Call               string `json:"call,omitempty"` // messageId of the newest call
}

// take reserves n bytes for the sketch. It returns false if the limit of the sketch or of all
// sketches does not allow it.
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

// count counts a value of a kind.
func (n *node) count(s *sketch, k kind, at int64, call func() string) {
	if len(n.kinds) > 0 && n.kinds[0].kind == k { // true for most values
		n.kinds[0].count++
		n.kinds[0].lastAt = at
		return
	}
	i := n.indexOf(s, k, call)
	if i < 0 {
		s.others++
		return
	}
	c := &n.kinds[i]
	c.count++
	if i > 0 && c.lastAt < at && c.count < n.kinds[0].count {
		if id := call(); s.take(len(id) - len(c.call)) {
			c.call = id
		}
	}
	c.lastAt = at
	if i > 0 && c.count > n.kinds[0].count { // keeps the most frequent kind first
		n.kinds[0], n.kinds[i] = n.kinds[i], n.kinds[0]
	}
}

// indexOf returns the index of a kind in n.kinds, or -1 if the limits are reached. It adds the kind if it
// is missing.
func (n *node) indexOf(s *sketch, k kind, call func() string) int {
	i := slices.IndexFunc(n.kinds, func(c kindCount) bool { return c.kind == k })
	if i >= 0 {
		return i
	}
	id := call()
	if !s.take(kindBytes + len(id)) {
		return -1
	}
	n.kinds = append(slices.Grow(n.kinds, 1), kindCount{kind: k, call: id})
	return len(n.kinds) - 1
}

// addValue counts a value that is neither an object nor an array. If there are too many values, it
// retains a few of them as samples.
func (n *node) addValue(s *sketch, raw []byte) {
	if n.truncated {
		n.replaceSample(s, raw)
		return
	}
	for i := range n.values {
		if v := &n.values[i]; v.JSON == string(raw) { // most values are already canonical
			v.Count++
			return
		}
	}
	value, whole := canonical(raw)
	if whole && n.countValue(s, value, 1) {
		return
	}
	n.truncateValues(s)
	if value != "" && len(n.values) < maxSamples && s.take(valueBytes+len(value)) {
		n.values = append(slices.Grow(n.values, 1), valueCount{JSON: value})
	}
}

// countValue adds to the count of a value. It returns false if the limits are reached.
func (n *node) countValue(s *sketch, value string, count uint64) bool {
	if i := slices.IndexFunc(n.values, func(v valueCount) bool { return v.JSON == value }); i >= 0 {
		n.values[i].Count += count
		return true
	}
	if len(n.values) == maxValues || !s.take(valueBytes+len(value)) {
		return false
	}
	n.values = append(slices.Grow(n.values, 1), valueCount{value, count})
	return true
}

// replaceSample replaces a sample by a new value, in one of 256 calls.
func (n *node) replaceSample(s *sketch, raw []byte) {
	if n.calls%256 != 0 || len(n.values) == 0 {
		return
	}
	value, _ := canonical(raw)
	isKnown := slices.ContainsFunc(n.values, func(v valueCount) bool { return v.JSON == value })
	if old := &n.values[int(n.calls/256)%len(n.values)]; value != "" && !isKnown && s.take(len(value)-len(old.JSON)) {
		old.JSON = value
	}
}

// truncateValues replaces the counted values with samples.
func (n *node) truncateValues(s *sketch) {
	n.truncated = true
	keep := min(len(n.values), maxSamples)
	for _, v := range n.values[keep:] {
		s.give(valueBytes + len(v.JSON))
	}
	n.values = slices.Clone(n.values[:keep])
}

// canonical returns a value in a uniform encoding. whole is false if the value was truncated. The
// result is empty for invalid UTF-8.
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
	s := text.Valid(jsonscan.Unquote(raw))
	short := text.CutBytes(maxValue, s)
	return string(fields.AppendString(nil, short)), short == s
}

// member returns the node of an object's field, or nil if the limits are reached.
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

// element returns the node of an array's elements, or nil if the limits are reached.
func (n *node) element(s *sketch) *node {
	if n.items == nil && s.take(nodeBytes) {
		n.items = &node{}
	}
	return n.items
}

// violate counts the plan violations of a call.
func (s *sketch) violate(c *tracking.Call, at int64) {
	if len(c.Violations) == 0 {
		return
	}
	s.violating++
	for _, found := range c.Violations {
		v := s.violationLike(found)
		if v == nil {
			continue
		}
		if v.Message == "" && s.take(len(found.Message)) { // restored violations have no message
			v.Message = strings.Clone(found.Message)
		}
		v.Calls++
		v.LastAt, v.Call = at, callID(c)
	}
}

// violationLike returns the counter of a violation, or nil if the limits are reached.
func (s *sketch) violationLike(found tracking.Violation) *violation {
	i := slices.IndexFunc(s.violations, func(v violation) bool { return v.Kind == found.Kind && v.Pointer == found.Pointer })
	if i >= 0 {
		return &s.violations[i]
	}
	if len(s.violations) == maxViolations || !s.take(violationBytes+len(found.Event)+len(found.Pointer)+len(found.Message)) {
		return nil
	}
	found.Pointer, found.Message = strings.Clone(found.Pointer), strings.Clone(found.Message)
	s.violations = append(s.violations, violation{Violation: found})
	return &s.violations[len(s.violations)-1]
}

// callID returns a copy of the messageId, or "" if the messageId is too long.
func callID(c *tracking.Call) string {
	if len(c.ID) > maxCallID {
		return ""
	}
	return strings.Clone(c.ID)
}

// seen extends the time range from first to last to include at.
func seen(first, last *int64, at int64) {
	if *first == 0 || at < *first {
		*first = at
	}
	*last = max(*last, at)
}
