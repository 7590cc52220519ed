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

	"github.com/seed-45eadc4a/analytics-go/plan/internal/input"
)

// Accepts reports whether a call matches the plan. It does not decode the call, and takes about a
// hundredth of the time of [Plan.Judge]. If it returns false, the call may still match, and Judge
// must decide. Accepts always returns false for entries with rare keywords, such as allOf, anyOf
// and patternProperties.
//
// name is the event of a track call, or the name of a page or screen. member is the value of
// the call's traits for an identify or group call, and of its properties otherwise. It is nil if
// the call has none. call and member must be valid JSON.
func (p *Plan) Accepts(callType, name string, call, member []byte) bool {
	e := p.Find(callType, name)
	if e == nil {
		return callType != "" && !p.types[callType]
	}
	return e.rule.accepts(call, member) && (p.common == nil || p.common.accepts(call, member))
}

// accepts reports whether a call matches the rule. If it returns false, the call may still match.
func (rule *rule) accepts(call, member []byte) bool {
	subject := rule.subject(call, member)
	if len(subject) > maxMatched {
		return false
	}
	end := rule.matcher.match(subject, nextByte(subject, 0))
	return end > 0 && nextByte(subject, end) == len(subject)
}

// emptyObject is used if properties or traits are missing.
var emptyObject = []byte("{}")

const (
	// maxMatched is the maximum number of bytes to match. For a larger value, the library may
	// need too many steps, which is a violation.
	maxMatched = 64 << 10
	// maxMatchedPattern is the maximum size of a pattern in instructions. With larger
	// patterns, the library may also need too many steps.
	maxMatchedPattern = 256
	// maxMatchedRefs is the maximum length of a chain of $ref. With longer chains, the library
	// may also need too many steps.
	maxMatchedRefs = 2
	// maxRequired is the maximum number of required names.
	maxRequired = 64
	// exactDigits is the number of decimal digits that a float64 can always represent.
	exactDigits = 15
)

// A matcher checks the bytes of a JSON value against a schema. If it accepts a value, the library
// accepts it too. It may reject values that the library accepts. A nil matcher accepts every
// value.
type matcher struct {
	unsure bool      // the matcher rejects every value
	types  valueType // the accepted types; 0 means all types
	enum   []string  // the accepted values as JSON; nil means all values

	pattern              *countedPattern        // nil if the schema has no pattern
	quick                func(text []byte) bool // set if the format has a quick check
	format               func(text string) bool // set if the format has no quick check
	minLength, maxLength int                    // numbers of characters
	anyString            bool                   // the schema has none of the checks above
	bounds               []bound

	minItems, maxItems int
	items              *matcher

	fields    []fieldMatcher // checks for the listed fields, sorted by name
	positions map[string]int // positions in fields, keyed by name; only used if there are many fields
	required  uint64         // the bits of the required fields
	others    *matcher       // the check for all other fields
}

type fieldMatcher struct {
	name  string
	value *matcher
	bit   uint64 // the bit of the field in required; 0 if it is optional
}

// maxLinearSearch is the number of fields up to which a linear search is used.
const maxLinearSearch = 16

// position returns the position of a field in m.fields, or len(m.fields) if it is not listed. The
// search starts at from, which should be the likely position.
func (m *matcher) position(name []byte, from int) int {
	if len(m.fields) > maxLinearSearch {
		if position, known := m.positions[string(name)]; known {
			return position
		}
		return len(m.fields)
	}
	for i := from; i < len(m.fields); i++ {
		if m.fields[i].name == string(name) {
			return i
		}
	}
	for i := range m.fields[:min(from, len(m.fields))] {
		if m.fields[i].name == string(name) {
			return i
		}
	}
	return len(m.fields)
}

// A bound is a minimum or a maximum.
type bound struct {
	value     float64
	exact     bool // value is an integer that equals the number in the plan exactly
	exclusive bool
	maximum   bool
}

// A valueType is a set of JSON types.
type valueType uint8

const (
	nullValue valueType = 1 << iota
	boolValue
	integerValue // a number that has no fraction and no exponent
	numberValue
	stringValue
	arrayValue
	objectValue
)

var valueTypes = map[string]valueType{
	"null": nullValue, "boolean": boolValue, "integer": integerValue, "number": numberValue | integerValue,
	"string": stringValue, "array": arrayValue, "object": objectValue,
}

// unsure is the matcher for schemas that only the library can check.
var unsure = &matcher{unsure: true}

// match returns the end of the value that starts at i. It returns -1 if it does not accept the value.
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
		if m.allows(objectValue) {
			end = m.matchObject(b, i)
		}
	case '[':
		if m.allows(arrayValue) {
			end = m.matchArray(b, i)
		}
	case '"':
		if m.allows(stringValue) {
			end = m.matchString(b, i)
		}
	case 't', 'f':
		if m.allows(boolValue) {
			end = skipValue(b, i)
		}
	case 'n':
		if m.allows(nullValue) {
			end = skipValue(b, i)
		}
	default:
		end = m.matchNumber(b, i)
	}
	if end < 0 || m.enum != nil && !m.inEnum(b[i:end]) {
		return -1
	}
	return end
}

// inEnum reports whether a value is one of the values in enum.
func (m *matcher) inEnum(value []byte) bool {
	for _, listed := range m.enum {
		if listed == string(value) {
			return true
		}
	}
	return false
}

func (m *matcher) allows(t valueType) bool { return m.types == 0 || m.types&t != 0 }

func (m *matcher) matchObject(b []byte, i int) int {
	missing, next := m.required, 0 // next is the likely position of the next field, because most senders use a fixed order
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
		if next >= len(m.fields) || m.fields[next].name != string(name) {
			next = m.position(name, next)
		}
		if next < len(m.fields) {
			member := &m.fields[next]
			value, next = member.value, next+1
			missing &^= member.bit
		} else if !utf8.Valid(name) {
			return -1 // invalid UTF-8 decodes to a different name
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
	if end < 0 || m.anyString {
		return end
	}
	text := b[i+1 : end-1]
	// A string has at most one character per byte.
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
	if end < 0 || !m.allows(t) {
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
		if !limit.allows(value, t == integerValue) {
			return -1
		}
	}
	return end
}

// allows reports whether a number is certainly within the bound. Rounding does not change the
// order of two numbers, so a strict comparison of the rounded values is correct.
func (l bound) allows(value float64, exact bool) bool {
	switch {
	case value == l.value:
		return exact && l.exact && !l.exclusive
	case l.maximum:
		return value < l.value
	}
	return value > l.value
}

// skipString returns the end of the string that starts at i, or -1 if it is invalid. plain is true
// if the string has no escapes.
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

// nextByte returns the index of the first byte from i on that is not white space.
func nextByte(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// skipNumber returns the end and the type of the number that starts at i. The end is -1 if the
// number is invalid.
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

// shortNumber parses a number that has at most exactDigits digits and no exponent. It rounds only
// once, in the division, because both operands are exact.
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

// skipValue returns the end of the value that starts at i, or -1. b must be valid JSON.
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

// A matcherCompiler caches the matchers of schemas, which may be recursive.
type matcherCompiler map[*jsonschema.Schema]*matcher

func newMatcher(s *jsonschema.Schema) *matcher { return matcherCompiler{}.compile(s, 0) }

// compile returns the matcher for a schema. refs is the number of $ref keywords that lead to it.
func (c matcherCompiler) compile(s *jsonschema.Schema, refs int) *matcher {
	switch {
	case s == nil || s.Bool != nil && *s.Bool:
		return nil
	case s.Bool != nil || unsupported(s) || refs > maxMatchedRefs:
		return unsure
	case s.Ref != nil:
		return c.reference(s, refs)
	}
	if m, ok := c[s]; ok {
		return m
	}
	m := &matcher{maxLength: math.MaxInt, maxItems: math.MaxInt}
	c[s] = m
	ok := m.addTypes(s) && m.addEnum(s) && m.addStrings(s) && m.addBounds(s) && c.addItems(m, s) && c.addMembers(m, s)
	if !ok {
		*m = *unsure
	}
	return m
}

// unsupported reports whether a schema has a keyword that matchers do not support.
func unsupported(s *jsonschema.Schema) bool {
	return s.RecursiveRef != nil || s.DynamicRef != nil || s.Not != nil || s.AllOf != nil || s.AnyOf != nil || s.OneOf != nil ||
		s.If != nil || s.MaxProperties != nil || s.MinProperties != nil || s.PropertyNames != nil || s.PatternProperties != nil ||
		s.Dependencies != nil || s.DependentRequired != nil || s.DependentSchemas != nil || s.UnevaluatedProperties != nil ||
		s.UniqueItems || s.Contains != nil || s.AdditionalItems != nil || s.PrefixItems != nil || s.UnevaluatedItems != nil ||
		s.ContentEncoding != nil || s.ContentMediaType != nil || s.ContentSchema != nil || s.MultipleOf != nil || len(s.Extensions) > 0
}

// reference returns the matcher for the target of a $ref. It supports a $ref only if the schema has
// no other keywords.
func (c matcherCompiler) reference(s *jsonschema.Schema, refs int) *matcher {
	alone := s.DraftVersion < 2019 || s.Enum == nil && s.Const == nil && s.Properties == nil && s.Required == nil && s.AdditionalProperties == nil &&
		s.MinItems == nil && s.MaxItems == nil && s.Items == nil && s.Items2020 == nil && s.MinLength == nil && s.MaxLength == nil && s.Pattern == nil &&
		s.Maximum == nil && s.Minimum == nil && s.ExclusiveMaximum == nil && s.ExclusiveMinimum == nil
	// The following keywords apply even if the schema has a $ref, in every draft.
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

// addEnum adds the values of an enum. It supports only values that are usually written in the same
// way: strings without escapes, numbers, booleans and null.
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

func (m *matcher) addStrings(s *jsonschema.Schema) bool {
	m.anyString = s.MinLength == nil && s.MaxLength == nil && s.Pattern == nil && (s.Format == nil || s.Format.Name == stepFormat)
	if s.MinLength != nil {
		m.minLength = *s.MinLength
	}
	if s.MaxLength != nil {
		m.maxLength = *s.MaxLength
	}
	if s.Pattern != nil {
		pattern, ok := s.Pattern.(*countedPattern)
		if !ok || pattern.size > maxMatchedPattern {
			return false
		}
		m.pattern = pattern
	}
	if s.Format == nil || s.Format.Name == stepFormat {
		return true
	}
	if m.quick = input.QuickFormats[s.Format.Name]; m.quick == nil {
		check := input.Formats()[s.Format.Name]
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
	m.positions = map[string]int{}
	for i, name := range slices.Compact(names) {
		member := fieldMatcher{name: name, value: m.others}
		if of, planned := s.Properties[name]; planned {
			member.value = c.compile(of, 0)
		}
		if slices.Contains(s.Required, name) {
			member.bit = m.required + 1
			m.required |= member.bit
		}
		m.fields, m.positions[name] = append(m.fields, member), i
	}
	return true
}
