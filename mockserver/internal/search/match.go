package search

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/internal/jsonscan"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
)

// MatchesText reports whether one of the values matches the term. A trailing * matches any suffix.
// It ignores Not.
func (t Term) MatchesText(values ...string) bool {
	switch t.Op {
	case OpExists:
		return slices.ContainsFunc(values, func(value string) bool { return value != "" })
	case OpEqual:
		return slices.Contains(values, t.Value)
	default:
		lower := strings.ToLower(t.Value)
		if prefix, ok := strings.CutSuffix(lower, "*"); ok {
			return slices.ContainsFunc(values, func(value string) bool { return strings.HasPrefix(strings.ToLower(value), prefix) })
		}
		return slices.ContainsFunc(values, func(value string) bool { return strings.Contains(strings.ToLower(value), lower) })
	}
}

// MatchesName reports whether a name matches the term.
func (t Term) MatchesName(value string) bool {
	if t.Op == OpExists {
		return value != ""
	}
	return value == t.Value
}

// MatchesBody reports whether a call has a matching value at the path of the term. An array matches if
// one of its elements does.
func (t Term) MatchesBody(body []byte) bool {
	return t.holdsAt(body, append([]string{fields.Names[fieldNamed(t.Field).object]}, t.Path...), 0)
}

// maxArrays is the maximum nesting of arrays. It is small because each level is scanned again.
const maxArrays = 4

// holdsAt evaluates the term for the remaining path in value. arrays is the number of enclosing
// arrays.
func (t Term) holdsAt(value []byte, path []string, arrays int) bool {
	if len(value) == 0 {
		return false
	}
	switch {
	case value[0] == '[' && arrays == maxArrays:
		return false
	case value[0] == '[':
		for element := range jsonscan.Elements(value) {
			if t.holdsAt(element, path, arrays+1) {
				return true
			}
		}
		return len(path) == 0 && t.Op == OpExists
	case len(path) == 0:
		return t.holds(value)
	case value[0] != '{':
		return false
	}
	for m := range jsonscan.Members(value) {
		if string(jsonscan.Unquote(m.Key)) == path[0] && t.holdsAt(m.Value, path[1:], arrays) {
			return true
		}
	}
	return false
}

// holds evaluates the term for a value that is not an array.
func (t Term) holds(value []byte) bool {
	if t.Op == OpExists {
		return true
	}
	got := string(value)
	if value[0] == '"' {
		got = string(jsonscan.Unquote(value))
	} else if want, err := strconv.ParseFloat(t.Value, 64); err == nil {
		if n, err := strconv.ParseFloat(got, 64); err == nil && !t.isExact(n, got) {
			return t.compare(n, want)
		}
	}
	switch t.Op {
	case OpEqual:
		return got == t.Value
	case OpLike:
		return strings.EqualFold(got, t.Value)
	default:
		return false
	}
}

// isExact reports whether the term must compare digits, because float64 cannot represent the number.
// This is necessary for large IDs.
func (t Term) isExact(n float64, digits string) bool {
	return math.Abs(n) >= 1<<53 && (t.Op == OpEqual || t.Op == OpLike) && !strings.ContainsAny(digits+t.Value, ".eE")
}

func (t Term) compare(got, want float64) bool {
	switch t.Op {
	case OpMore:
		return got > want
	case OpAtLeast:
		return got >= want
	case OpLess:
		return got < want
	case OpAtMost:
		return got <= want
	default:
		return got == want
	}
}

// A Range is a range of response statuses, including both ends.
type Range struct{ From, To int }

// StatusRange parses a response status such as 404 or a class such as 4xx.
func StatusRange(value string) (Range, bool) {
	if class, ok := strings.CutSuffix(strings.ToLower(value), "xx"); ok && len(class) == 1 && class[0] >= '1' && class[0] <= '5' {
		from := int(class[0]-'0') * 100
		return Range{from, from + 99}, true
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 100 || n > 599 || len(value) != 3 {
		return Range{}, false
	}
	return Range{n, n}, true
}
