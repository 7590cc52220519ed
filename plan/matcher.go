package plan

import (
	"encoding/json"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/seed-45eadc4a/analytics-go/plan/internal/formats"
)

// Accepts reports whether a call is surely as planned. It decodes nothing, and takes about
// a hundredth of the time of the library, so it is for whoever judges many calls: where it
// is false, [Plan.Judge] decides, and says what is wrong. For what is rare in plans
// (allOf, anyOf, patternProperties, and so on) it is always false.
//
// name is the event of a track call, or the name of a page or screen. member is what the
// call has as its properties, or its traits if it is an identify or group call; nil if it
// has none. call and member must be JSON.
func (p *Plan) Accepts(callType, name string, call, member []byte) bool {
	e := p.Find(callType, name)
	if e == nil {
		return callType != "" && !p.types[callType]
	}
	return e.rule.accepts(call, member) && (p.common == nil || p.common.accepts(call, member))
}

// accepts reports whether a rule surely accepts a call.
func (rule *rule) accepts(call, member []byte) bool {
	subject := call
	if len(rule.base) > 0 {
		if subject = member; subject == nil || subject[0] == 'n' {
			subject = noMember
		}
	}
	if len(subject) > maxMatched {
		return false
	}
	end := rule.matcher.match(subject, nextByte(subject, 0))
	return end > 0 && nextByte(subject, end) == len(subject)
}

// noMember is the member of a call without it.
var noMember = []byte("{}")

const (
	// maxMatched bounds what is matched, in bytes, so that the library would not take too
	// many steps for it, which is a violation.
	maxMatched = 64 << 10
	// maxMatchedPattern bounds the patterns that are matched, in instructions, likewise.
	maxMatchedPattern = 256
	// maxMatchedRefs bounds how many $ref lead on from one to the next, likewise.
	maxMatchedRefs = 2
	// maxRequired is how many names can be required.
	maxRequired = 64
	// exactDigits is how many digits a number may have to be compared as a float64.
	exactDigits = 15
)

// A matcher is what a schema comes to: a check of the bytes of a value, which accepts
// nothing that the library refuses. What is hard to be sure of it does not accept. A nil
// matcher accepts every value.
type matcher struct {
	unsure bool      // it accepts no value
	types  valueType // that are accepted; 0 for all
	enum   []string  // the JSON of values that are accepted; nil for all

	pattern              *steppingPattern       // nil for any text
	quick                func(text []byte) bool // nil where it has no quick format
	format               func(text string) bool // nil where it has a quick one, or none
	minLength, maxLength int                    // in characters
	anyText              bool                   // none of these holds
	bounds               []bound

	minItems, maxItems int
	items              *matcher

	members  []memberMatcher // by name
	places   map[string]int  // of members, if they are many
	required uint64          // the bits of members
	others   *matcher        // for members of other names
}

type memberMatcher struct {
	name  string
	value *matcher
	bit   uint64 // of one that is required, else 0
}

// fewMembers is how many are looked through; more are looked up.
const fewMembers = 16

// place returns the place of a member, or how many there are if it is not among them. It
// looks from a place on where it is likely.
func (m *matcher) place(name []byte, from int) int {
	if len(m.members) > fewMembers {
		if place, known := m.places[string(name)]; known {
			return place
		}
		return len(m.members)
	}
	for i := from; i < len(m.members); i++ {
		if m.members[i].name == string(name) {
			return i
		}
	}
	for i := range m.members[:min(from, len(m.members))] {
		if m.members[i].name == string(name) {
			return i
		}
	}
	return len(m.members)
}

// A bound is a minimum, or a maximum.
type bound struct {
	value     float64
	exact     bool // value is what the plan says, and an integer
	exclusive bool
	maximum   bool
}

// A valueType is a set of types of JSON values.
type valueType uint8

const (
	nullValue valueType = 1 << iota
	boolValue
	integerValue // a number without a fraction and an exponent
	numberValue
	stringValue
	arrayValue
	objectValue
)

var valueTypes = map[string]valueType{
	"null": nullValue, "boolean": boolValue, "integer": integerValue, "number": numberValue | integerValue,
	"string": stringValue, "array": arrayValue, "object": objectValue,
}

// unsure is the matcher of schemas that are left to the library.
var unsure = &matcher{unsure: true}

// match returns the end of the value that begins at i, or -1 if it may not be accepted.
func (m *matcher) match(b []byte, i int) int {
	if m == nil {
		return skipValue(b, i)
	}
	if m.unsure || i >= len(b) {
		return -1
	}
	end := -1
	switch b[i] {
	case '{':
		if m.takes(objectValue) {
			end = m.matchObject(b, i)
		}
	case '[':
		if m.takes(arrayValue) {
			end = m.matchArray(b, i)
		}
	case '"':
		if m.takes(stringValue) {
			end = m.matchString(b, i)
		}
	case 't', 'f':
		if m.takes(boolValue) {
			end = skipValue(b, i)
		}
	case 'n':
		if m.takes(nullValue) {
			end = skipValue(b, i)
		}
	default:
		end = m.matchNumber(b, i)
	}
	if end < 0 || m.enum != nil && !m.lists(b[i:end]) {
		return -1
	}
	return end
}

// lists reports whether a value is in enum.
func (m *matcher) lists(value []byte) bool {
	for _, listed := range m.enum {
		if listed == string(value) {
			return true
		}
	}
	return false
}

func (m *matcher) takes(t valueType) bool { return m.types == 0 || m.types&t != 0 }

func (m *matcher) matchObject(b []byte, i int) int {
	missing, next := m.required, 0 // most senders write members in one order
	if i = nextByte(b, i+1); i < len(b) && b[i] == '}' {
		return ended(i+1, missing == 0)
	}
	for i < len(b) && b[i] == '"' {
		end, plain := skipString(b, i)
		if end < 0 || !plain {
			return -1
		}
		name := b[i+1 : end-1]
		if i = nextByte(b, end); i >= len(b) || b[i] != ':' {
			return -1
		}
		value := m.others
		if next >= len(m.members) || m.members[next].name != string(name) {
			next = m.place(name, next)
		}
		if next < len(m.members) {
			member := &m.members[next]
			value, next = member.value, next+1
			missing &^= member.bit
		} else if !utf8.Valid(name) {
			return -1 // it stands for another name
		}
		if i = value.match(b, nextByte(b, i+1)); i < 0 {
			return -1
		}
		if i = nextByte(b, i); i >= len(b) {
			return -1
		}
		if b[i] == '}' {
			return ended(i+1, missing == 0)
		}
		if b[i] != ',' {
			return -1
		}
		i = nextByte(b, i+1)
	}
	return -1
}

func ended(end int, ok bool) int {
	if ok {
		return end
	}
	return -1
}

func (m *matcher) matchArray(b []byte, i int) int {
	n := 0
	if i = nextByte(b, i+1); i < len(b) && b[i] == ']' {
		return ended(i+1, m.minItems <= 0)
	}
	for {
		if i = m.items.match(b, i); i < 0 {
			return -1
		}
		n++
		if i = nextByte(b, i); i >= len(b) {
			return -1
		}
		if b[i] == ']' {
			return ended(i+1, n >= m.minItems && n <= m.maxItems)
		}
		if b[i] != ',' {
			return -1
		}
		i = nextByte(b, i+1)
	}
}

func (m *matcher) matchString(b []byte, i int) int {
	end, plain := skipString(b, i)
	if end < 0 || m.anyText {
		return end
	}
	text := b[i+1 : end-1]
	// A character is a byte at least.
	if !plain || m.minLength > 0 && utf8.RuneCount(text) < m.minLength || len(text) > m.maxLength && utf8.RuneCount(text) > m.maxLength {
		return -1
	}
	if m.quick != nil && !m.quick(text) || (m.pattern != nil || m.format != nil) && !utf8.Valid(text) {
		return -1
	}
	if m.pattern != nil && !m.pattern.Match(text) || m.format != nil && !m.format(string(text)) {
		return -1
	}
	return end
}

func (m *matcher) matchNumber(b []byte, i int) int {
	end, t := skipNumber(b, i)
	if end < 0 || !m.takes(t) {
		return -1
	}
	if len(m.bounds) == 0 {
		return ended(end, end-i <= maxNumberDigits)
	}
	value, ok := shortNumber(b[i:end])
	if !ok {
		return -1
	}
	for _, limit := range m.bounds {
		if !limit.holds(value, t == integerValue) {
			return -1
		}
	}
	return end
}

// holds reports whether a number surely keeps the bound. Both have been rounded, if they
// are not exact: so if one is the greater by then, it was so before.
func (l bound) holds(value float64, exact bool) bool {
	switch {
	case value == l.value:
		return exact && l.exact && !l.exclusive
	case l.maximum:
		return value < l.value
	}
	return value > l.value
}

// skipString returns the end of the string that begins at i, or -1, and whether its text
// is as it stands there, without escapes.
func skipString(b []byte, i int) (end int, plain bool) {
	plain = true
	for i++; i < len(b); i++ {
		switch b[i] {
		case '"':
			return i + 1, plain
		case '\\':
			i, plain = i+1, false
		}
	}
	return -1, false
}

// nextByte returns where the next byte is that is no white space. Mostly there is none.
func nextByte(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// skipNumber returns the end of the number that begins at i, or -1, and its type.
func skipNumber(b []byte, i int) (end int, t valueType) {
	start := i
	for t = integerValue; i < len(b); i++ {
		switch c := b[i]; {
		case c >= '0' && c <= '9' || c == '-' && i == start:
			continue
		case c == '.' || c == 'e' || c == 'E' || c == '+' || c == '-':
			t = numberValue
			continue
		}
		break
	}
	return ended(i, i > start), t
}

// shortNumber returns a number of at most exactDigits digits without an exponent. Its
// digits and the power of ten are exact, so that it is rounded once.
func shortNumber(text []byte) (value float64, ok bool) {
	digits, n, power, scale := int64(0), 0, 1.0, 1.0
	sign := 1.0
	for i, c := range text {
		switch {
		case c >= '0' && c <= '9':
			digits, n, power = digits*10+int64(c-'0'), n+1, power*scale
		case c == '-' && i == 0:
			sign = -1
		case c == '.':
			scale = 10
		default:
			return 0, false
		}
		if n > exactDigits {
			return 0, false
		}
	}
	return sign * float64(digits) / power, n > 0
}

// skipValue returns the end of the value that begins at i, or -1. It trusts that it is
// JSON.
func skipValue(b []byte, i int) int {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '"':
		end, _ := skipString(b, i)
		return end
	case '{', '[':
		return skipNested(b, i)
	case 't', 'n':
		return ended(i+len("true"), i+len("true") <= len(b))
	case 'f':
		return ended(i+len("false"), i+len("false") <= len(b))
	}
	end, _ := skipNumber(b, i)
	return end
}

func skipNested(b []byte, i int) int {
	for depth := 0; i < len(b); i++ {
		switch b[i] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		case '"':
			end, _ := skipString(b, i)
			if end < 0 {
				return -1
			}
			i = end - 1
		}
	}
	return -1
}

// A matcherCompiler makes matchers of the library's schemas, which may refer to each other
// in a circle.
type matcherCompiler map[*jsonschema.Schema]*matcher

func newMatcher(s *jsonschema.Schema) *matcher { return matcherCompiler{}.compile(s, 0) }

// compile returns the matcher of a schema to which so many $ref have led from another.
func (c matcherCompiler) compile(s *jsonschema.Schema, refs int) *matcher {
	switch {
	case s == nil || s.Bool != nil && *s.Bool:
		return nil
	case s.Bool != nil || isRare(s) || refs > maxMatchedRefs:
		return unsure
	case s.Ref != nil:
		return c.reference(s, refs)
	}
	if m, ok := c[s]; ok {
		return m
	}
	m := &matcher{maxLength: math.MaxInt, maxItems: math.MaxInt}
	c[s] = m
	ok := m.addTypes(s) && m.addEnum(s) && m.addTexts(s) && m.addBounds(s) && c.addItems(m, s) && c.addMembers(m, s)
	if !ok {
		*m = *unsure
	}
	return m
}

// isRare reports whether a schema has a keyword that is left to the library.
func isRare(s *jsonschema.Schema) bool {
	return s.RecursiveRef != nil || s.DynamicRef != nil || s.Not != nil || s.AllOf != nil || s.AnyOf != nil || s.OneOf != nil ||
		s.If != nil || s.MaxProperties != nil || s.MinProperties != nil || s.PropertyNames != nil || s.PatternProperties != nil ||
		s.Dependencies != nil || s.DependentRequired != nil || s.DependentSchemas != nil || s.UnevaluatedProperties != nil ||
		s.UniqueItems || s.Contains != nil || s.AdditionalItems != nil || s.PrefixItems != nil || s.UnevaluatedItems != nil ||
		s.ContentEncoding != nil || s.ContentMediaType != nil || s.ContentSchema != nil || s.MultipleOf != nil || len(s.Extensions) > 0
}

// reference returns the matcher of what a schema refers to, if it says nothing beside.
func (c matcherCompiler) reference(s *jsonschema.Schema, refs int) *matcher {
	alone := s.DraftVersion < 2019 || s.Enum == nil && s.Const == nil && s.Properties == nil && s.Required == nil && s.AdditionalProperties == nil &&
		s.MinItems == nil && s.MaxItems == nil && s.Items == nil && s.Items2020 == nil && s.MinLength == nil && s.MaxLength == nil && s.Pattern == nil &&
		s.Maximum == nil && s.Minimum == nil && s.ExclusiveMaximum == nil && s.ExclusiveMinimum == nil
	// These hold beside $ref in any draft.
	if !alone || s.Types != nil && !s.Types.IsEmpty() || s.Enum != nil || s.Const != nil || s.Format != nil && s.Format.Name != stepFormat {
		return unsure
	}
	return c.compile(s.Ref, refs+1)
}

func (m *matcher) addTypes(s *jsonschema.Schema) bool {
	if s.Types == nil {
		return true
	}
	for _, name := range s.Types.ToStrings() {
		t, known := valueTypes[name]
		if !known {
			return false
		}
		m.types |= t
	}
	return true
}

// addEnum takes values whose JSON is what senders write, too: texts without escapes,
// numbers, booleans and null.
func (m *matcher) addEnum(s *jsonschema.Schema) bool {
	var values []any
	switch {
	case s.Enum != nil && s.Const != nil:
		return false
	case s.Enum != nil:
		values = s.Enum.Values
	case s.Const != nil:
		values = []any{*s.Const}
	default:
		return true
	}
	m.enum = []string{}
	for _, value := range values {
		switch v := value.(type) {
		case string:
			if text := `"` + v + `"`; utf8.ValidString(v) && !strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' }) {
				m.enum = append(m.enum, text)
			}
		case json.Number:
			m.enum = append(m.enum, v.String())
		case bool:
			m.enum = append(m.enum, strconv.FormatBool(v))
		case nil:
			m.enum = append(m.enum, "null")
		}
	}
	return true
}

func (m *matcher) addTexts(s *jsonschema.Schema) bool {
	m.anyText = s.MinLength == nil && s.MaxLength == nil && s.Pattern == nil && (s.Format == nil || s.Format.Name == stepFormat)
	if s.MinLength != nil {
		m.minLength = *s.MinLength
	}
	if s.MaxLength != nil {
		m.maxLength = *s.MaxLength
	}
	if s.Pattern != nil {
		pattern, ok := s.Pattern.(*steppingPattern)
		if !ok || pattern.size > maxMatchedPattern {
			return false
		}
		m.pattern = pattern
	}
	if s.Format == nil || s.Format.Name == stepFormat {
		return true
	}
	if m.quick = formats.Quick[s.Format.Name]; m.quick == nil {
		check := formats.All()[s.Format.Name]
		m.format = func(text string) bool { return check(text) == nil }
		return check != nil
	}
	return true
}

func (m *matcher) addBounds(s *jsonschema.Schema) bool {
	for _, l := range []struct {
		value              *big.Rat
		exclusive, maximum bool
	}{{s.Minimum, false, false}, {s.ExclusiveMinimum, true, false}, {s.Maximum, false, true}, {s.ExclusiveMaximum, true, true}} {
		if l.value == nil {
			continue
		}
		value, exact := l.value.Float64()
		m.bounds = append(m.bounds, bound{value, exact && l.value.IsInt(), l.exclusive, l.maximum})
	}
	return true
}

func (c matcherCompiler) addItems(m *matcher, s *jsonschema.Schema) bool {
	if s.MinItems != nil {
		m.minItems = *s.MinItems
	}
	if s.MaxItems != nil {
		m.maxItems = *s.MaxItems
	}
	items := s.Items2020
	switch of := s.Items.(type) {
	case nil:
	case *jsonschema.Schema:
		items = of
	default:
		return false
	}
	m.items = c.compile(items, 0)
	return true
}

func (c matcherCompiler) addMembers(m *matcher, s *jsonschema.Schema) bool {
	switch others := s.AdditionalProperties.(type) {
	case nil:
	case bool:
		if !others {
			m.others = unsure
		}
	case *jsonschema.Schema:
		m.others = c.compile(others, 0)
	default:
		return false
	}
	if len(s.Required) > maxRequired {
		return false
	}
	names := slices.AppendSeq(slices.Clone(s.Required), maps.Keys(s.Properties))
	slices.Sort(names)
	m.places = map[string]int{}
	for i, name := range slices.Compact(names) {
		member := memberMatcher{name: name, value: m.others}
		if of, planned := s.Properties[name]; planned {
			member.value = c.compile(of, 0)
		}
		if slices.Contains(s.Required, name) {
			member.bit = m.required + 1
			m.required |= member.bit
		}
		m.members, m.places[name] = append(m.members, member), i
	}
	return true
}
