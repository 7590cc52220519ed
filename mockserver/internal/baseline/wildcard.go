package baseline

import (
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/jsondiff"
)

// A wildcard matches the values of a type. It implements jsondiff.Matcher.
type wildcard struct {
	name string // description in a difference
	typ  string // type of typeOf; empty for any
	none bool   // whether it also matches a missing value
}

// wildcards maps strings in a file to wildcards.
var wildcards = map[string]jsondiff.Matcher{
	"<any>":      &wildcard{name: "any value"},
	"<optional>": &wildcard{name: "any value, or none", none: true},
	"<string>":   &wildcard{name: "a string", typ: "string"},
	"<number>":   &wildcard{name: "a number", typ: "number"},
	"<boolean>":  &wildcard{name: "a boolean", typ: "boolean"},
	"<array>":    &wildcard{name: "an array", typ: "array"},
	"<object>":   &wildcard{name: "an object", typ: "object"},
}

// Match implements jsondiff.Matcher.
func (w *wildcard) Match(v any, present bool) bool {
	return !present && w.none || present && (w.typ == "" || w.typ == typeOf(v))
}

// String implements jsondiff.Matcher.
func (w *wildcard) String() string { return w.name }

// wildcardOf returns the wildcard that a value in a file represents, or nil.
func wildcardOf(v any) *wildcard {
	s, _ := v.(string)
	w, _ := wildcards[s].(*wildcard)
	return w
}

// typeOf returns the type of a normalized value.
func typeOf(v any) string {
	if s, ok := v.(string); ok && strings.HasPrefix(s, numberPrefix) {
		return "number"
	}
	return jsondiff.TypeOf(v)
}
