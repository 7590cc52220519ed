package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/seed-45eadc4a/analytics-go/internal/jsonscan"
	"github.com/seed-45eadc4a/analytics-go/plan/internal/input"
)

// Accepts reports whether a call matches the plan. It does not decode the call, and takes much less
// time than [Plan.Judge] if the call has violations. If it returns false, the call may still match,
// and Judge must decide. Accepts always returns false for entries with rare keywords, such as allOf,
// anyOf and patternProperties.
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
	s := jsonscan.New(subject)
	return rule.matcher.match(s) && s.End() == nil
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
	// exactDigits is the length of an integer that a float64 can always represent.
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
	positions map[string]int // positions in fields, keyed by name
	required  uint64         // the bits of the required fields
	others    *matcher       // the check for all other fields
}

type fieldMatcher struct {
	name  string
	value *matcher
	bit   uint64 // the bit of the field in required; 0 if it is optional
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

// match reports whether the matcher accepts the next value. If it does, match skips the value.
func (m *matcher) match(s *jsonscan.Scanner) bool {
	if m == nil {
		_, err := s.Value()
		return err == nil
	}
	if m.unsure {
		return false
	}
	switch kind := s.Kind(); kind {
	case '{':
		return m.allows(objectValue) && m.enum == nil && m.matchObject(s)
	case '[':
		return m.allows(arrayValue) && m.enum == nil && m.matchArray(s)
	default:
		value, err := s.Value()
		return err == nil && m.matchScalar(kind, value) &&
			(m.enum == nil || slices.ContainsFunc(m.enum, func(listed string) bool { return listed == string(value) }))
	}
}

func (m *matcher) allows(t valueType) bool { return m.types == 0 || m.types&t != 0 }

// errRejected stops a scan at a value that a matcher does not accept.
var errRejected = errors.New("rejected")

func (m *matcher) matchObject(s *jsonscan.Scanner) bool {
	missing, next := m.required, 0 // next is the likely position of the next field, because most senders use a fixed order
	err := s.Object(func(key []byte) error {
		name := key[1 : len(key)-1]
		if !isPlain(name) {
			return errRejected
		}
		value := m.others
		at, listed := next, next < len(m.fields) && m.fields[next].name == string(name)
		if !listed {
			at, listed = m.positions[string(name)]
		}
		if listed {
			member := &m.fields[at]
			value, next = member.value, at+1
			missing &^= member.bit
		} else if !utf8.Valid(name) {
			return errRejected // invalid UTF-8 decodes to a different name
		}
		if !value.match(s) {
			return errRejected
		}
		return nil
	})
	return err == nil && missing == 0
}

// isPlain reports whether the content of a string has no escapes.
func isPlain(text []byte) bool { return bytes.IndexByte(text, '\\') < 0 }

func (m *matcher) matchArray(s *jsonscan.Scanner) bool {
	n := 0
	err := s.Array(func() error {
		if n++; !m.items.match(s) {
			return errRejected
		}
		return nil
	})
	return err == nil && n >= m.minItems && n <= m.maxItems
}

func (m *matcher) matchScalar(kind byte, value []byte) bool {
	switch kind {
	case '"':
		return m.allows(stringValue) && m.matchString(value[1:len(value)-1])
	case '0':
		return m.matchNumber(value)
	case 't', 'f':
		return m.allows(boolValue)
	}
	return m.allows(nullValue)
}

// matchString checks the content of a string.
func (m *matcher) matchString(text []byte) bool {
	if m.anyString {
		return true
	}
	// A string has at most one character per byte.
	if !isPlain(text) || m.minLength > 0 && utf8.RuneCount(text) < m.minLength || len(text) > m.maxLength && utf8.RuneCount(text) > m.maxLength {
		return false
	}
	if m.quick != nil && !m.quick(text) || (m.pattern != nil || m.format != nil) && !utf8.Valid(text) {
		return false
	}
	return (m.pattern == nil || m.pattern.Match(text)) && (m.format == nil || m.format(string(text)))
}

func (m *matcher) matchNumber(text []byte) bool {
	t := integerValue
	if bytes.ContainsAny(text, ".eE") {
		t = numberValue
	}
	if !m.allows(t) {
		return false
	}
	if len(m.bounds) == 0 {
		return len(text) <= maxNumberDigits
	}
	value, err := strconv.ParseFloat(string(text), 64)
	exact := t == integerValue && len(text) <= exactDigits
	return err == nil && !slices.ContainsFunc(m.bounds, func(l bound) bool { return !l.allows(value, exact) })
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
