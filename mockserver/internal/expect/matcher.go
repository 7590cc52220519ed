package expect

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/internal/spell"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/jsondiff"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

// Names of the fields that define a matcher.
const (
	anyMatcher    = "$any"
	typeMatcher   = "$type"
	regexpMatcher = "$regexp"
	absentMatcher = "$absent"
	minMatcher    = "$min"
	maxMatcher    = "$max"
	equalsMatcher = "$equals"
)

var matcherNames = []string{anyMatcher, typeMatcher, regexpMatcher, absentMatcher, minMatcher, maxMatcher, equalsMatcher}

// A matcher is a jsondiff.Matcher that is defined in a document.
type matcher struct {
	written map[string]any
	words   string // description of matching values
	match   func(got any, present bool) bool
}

// Match implements jsondiff.Matcher.
func (m *matcher) Match(got any, present bool) bool { return m.match(got, present) }

// String implements jsondiff.Matcher.
func (m *matcher) String() string { return m.words }

// MarshalJSON implements json.Marshaler.
func (m *matcher) MarshalJSON() ([]byte, error) { return json.Marshal(m.written) }

// wantOf converts an expected value. It replaces objects that define a matcher with the matcher.
func (ps *problems) wantOf(path []any, v any) any {
	switch v := v.(type) {
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = ps.wantOf(append(path, i), v[i])
		}
		return list
	case map[string]any:
		names := slices.Sorted(maps.Keys(v))
		if slices.ContainsFunc(names, isMatcher) {
			return ps.matcherOf(path, names, v)
		}
		object := make(map[string]any, len(v))
		for _, name := range names {
			if like := matcherLike(name); like != "" {
				ps.add(append(path, name), "is not a matcher", fmt.Sprintf("did you mean %s? To match a field of that name, write {%s: {…}}", like, equalsMatcher))
			}
			object[name] = ps.wantOf(append(path, name), v[name])
		}
		return object
	}
	return v
}

func isMatcher(name string) bool { return slices.Contains(matcherNames, name) }

// matcherLike returns the matcher name that was probably misspelled, or "". It allows only one wrong
// letter, because property names may begin with a dollar sign.
func matcherLike(name string) string {
	if !strings.HasPrefix(name, "$") || len(name) > len(equalsMatcher)+1 {
		return ""
	}
	for _, known := range matcherNames {
		if spell.Distance(strings.ToLower(name), known) <= 1 {
			return known
		}
	}
	return ""
}

// matcherOf parses a matcher. names must be sorted.
func (ps *problems) matcherOf(path []any, names []string, written map[string]any) *matcher {
	m := &matcher{written: written, match: func(any, bool) bool { return false }}
	isRange := !slices.ContainsFunc(names, func(name string) bool { return name != minMatcher && name != maxMatcher })
	if len(names) > 1 && !isRange {
		ps.add(path, "has "+strings.Join(names, ", "), fmt.Sprintf("use one matcher, or %s with %s; to match an object with these fields, write {%s: {…}}", minMatcher, maxMatcher, equalsMatcher))
		return m
	}
	path, value := append(path, names[0]), written[names[0]]
	switch names[0] {
	case anyMatcher, absentMatcher:
		if value != true {
			ps.add(path, "is "+jsondiff.Text(value, 40), "use true")
		}
		wanted := names[0] == anyMatcher
		m.words = map[bool]string{true: "any value", false: "no value"}[wanted]
		m.match = func(_ any, present bool) bool { return present == wanted }
	case typeMatcher:
		ps.typeMatcher(m, path, value)
	case regexpMatcher:
		ps.regexpMatcher(m, path, value)
	case equalsMatcher:
		m.words = "exactly " + jsondiff.Text(value, 200)
		m.match = func(got any, present bool) bool {
			return present && len(jsondiff.Compare(got, value, false).Lines) == 0
		}
	default:
		ps.rangeMatcher(m, path[:len(path)-1], written)
	}
	return m
}

// jsonTypes maps types to their descriptions.
var jsonTypes = map[string]string{
	"string": "a string", "number": "a number", "integer": "a whole number", "boolean": "true or false",
	"object": "an object", "array": "an array", "null": "null",
}

func (ps *problems) typeMatcher(m *matcher, path []any, value any) {
	name, _ := value.(string)
	words, ok := jsonTypes[name]
	if !ok {
		ps.add(path, "is "+jsondiff.Text(value, 40), "use "+strings.Join(slices.Sorted(maps.Keys(jsonTypes)), ", "))
		return
	}
	m.words = words
	m.match = func(got any, present bool) bool { return present && isOfType(got, name) }
}

func isOfType(v any, name string) bool {
	if n, ok := v.(json.Number); ok && name == "integer" {
		f, err := n.Float64()
		return err == nil && f == math.Trunc(f)
	}
	return jsondiff.TypeOf(v) == name
}

// maxRegexp is the maximum length of a regular expression in bytes.
const maxRegexp = 1000

func (ps *problems) regexpMatcher(m *matcher, path []any, value any) {
	pattern, ok := value.(string)
	if !ok || len(pattern) > maxRegexp {
		ps.add(path, "is "+jsondiff.Text(value, 40), fmt.Sprintf("use a regular expression of at most %d bytes, as a string", maxRegexp))
		return
	}
	expression, err := regexp.Compile(pattern)
	if err != nil {
		why := strings.TrimPrefix(err.Error(), "error parsing regexp: ")
		ps.add(path, "is "+text.Quote(text.MaxRepeated/2, pattern), "correct it: "+text.CutBytes(text.MaxRepeated/2, why)+"; the syntax is RE2")
		return
	}
	m.words = fmt.Sprintf("a string that matches %q", pattern)
	m.match = func(got any, present bool) bool {
		s, ok := got.(string)
		return present && ok && expression.MatchString(s)
	}
}

func (ps *problems) rangeMatcher(m *matcher, path []any, written map[string]any) {
	bound := func(name string, without float64) float64 {
		value, has := written[name]
		if !has {
			return without
		}
		n, _ := value.(json.Number)
		f, err := n.Float64()
		if err != nil {
			ps.add(append(path, name), "is "+jsondiff.Text(value, 40), "use a number")
		}
		return f
	}
	least, most := bound(minMatcher, math.Inf(-1)), bound(maxMatcher, math.Inf(1))
	if least > most {
		ps.add(append(path, maxMatcher), fmt.Sprintf("is %v", written[maxMatcher]), fmt.Sprintf("use at least %v, the value of %s", written[minMatcher], minMatcher))
	}
	switch {
	case math.IsInf(most, 1):
		m.words = fmt.Sprintf("a number of at least %v", written[minMatcher])
	case math.IsInf(least, -1):
		m.words = fmt.Sprintf("a number of at most %v", written[maxMatcher])
	default:
		m.words = fmt.Sprintf("a number from %v to %v", written[minMatcher], written[maxMatcher])
	}
	m.match = func(got any, present bool) bool {
		n, ok := got.(json.Number)
		f, err := n.Float64()
		return present && ok && err == nil && least <= f && f <= most
	}
}
