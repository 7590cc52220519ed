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
var wildcards = map[string]*wildcard{
	"<any>":      {name: "any value"},
	"<optional>": {name: "any value, or none", none: true},
	"<string>":   {name: "a string", typ: "string"},
	"<number>":   {name: "a number", typ: "number"},
	"<boolean>":  {name: "a boolean", typ: "boolean"},
	"<array>":    {name: "an array", typ: "array"},
	"<object>":   {name: "an object", typ: "object"},
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
	return wildcards[s]
}

// typeOf returns the type of a normalized value.
func typeOf(v any) string {
	if s, ok := v.(string); ok && strings.HasPrefix(s, numberPrefix) {
		return "number"
	}
	return jsondiff.TypeOf(v)
}

// withMatchers returns a copy of a value in a file in which wildcards are Matchers.
func withMatchers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		object := make(map[string]any, len(v))
		for key, value := range v {
			object[key] = withMatchers(value)
		}
		return object
	case []any:
		array := make([]any, len(v))
		for i, value := range v {
			array[i] = withMatchers(value)
		}
		return array
	}
	if w := wildcardOf(v); w != nil {
		return w
	}
	return v
}
