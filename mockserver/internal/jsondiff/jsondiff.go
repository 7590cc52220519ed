// Package jsondiff compares JSON values. [Compare] describes the differences of a decoded value
// from an expected one, in which Matchers can replace values. [ComparePaths] lists all paths of
// two documents with both values.
package jsondiff

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/seed-45eadc4a/analytics-go/internal/spell"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/canonical"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

const (
	maxDifferences = 20  // number of lines
	maxShown       = 200 // bytes of a value
)

// A Matcher replaces a value in the expected document.
type Matcher interface {
	// Match reports whether a decoded value matches. present is false if there is no
	// value.
	Match(got any, present bool) bool
	// String describes the expected value, such as "a string".
	String() string
}

// A Diff contains the differences of two values.
type Diff struct {
	Lines    []string // one line per difference, and one for the number of others
	Distance int      // sum of the edit distances of differing values

	subset bool
	words  map[string]Matcher
	more   int // number of differences without a line
}

// Compare returns the differences of got from want. Both are values of Decode; want may
// contain Matchers. Key order and number formats are ignored. With subset, objects in got may
// have additional fields.
func Compare(got, want any, subset bool) *Diff { return (&Diff{subset: subset}).run(got, want) }

// CompareWords is like Compare without subset. The strings in words stand for Matchers in want.
func CompareWords(got, want any, words map[string]Matcher) *Diff {
	return (&Diff{words: words}).run(got, want)
}

func (d *Diff) run(got, want any) *Diff {
	d.compare("", got, want)
	if d.more > 0 {
		d.Lines = append(d.Lines, "and "+text.Plural(d.more, "more difference", "more differences"))
	}
	return d
}

// Decode decodes one value with numbers as json.Number.
func Decode(data []byte) (v any, err error) {
	if err := text.ParseJSON(data, &v); err != nil {
		return nil, err
	}
	return v, nil
}

// TypeOf returns the JSON type of a decoded value: object, array, string, number, boolean or null.
func TypeOf(v any) string {
	switch v.(type) {
	case map[string]any:
		return "object"
	case []any:
		return "array"
	case string:
		return "string"
	case json.Number:
		return "number"
	case bool:
		return "boolean"
	}
	return "null"
}

func (d *Diff) add(path, format string, args ...any) {
	if len(d.Lines) == maxDifferences {
		d.more++
		return
	}
	if path == "" {
		path = "document"
	}
	d.Lines = append(d.Lines, path+" "+fmt.Sprintf(format, args...))
}

// matcher returns the Matcher that a value in the expected document stands for, or nil.
func (d *Diff) matcher(want any) Matcher {
	if word, ok := want.(string); ok {
		return d.words[word]
	}
	m, _ := want.(Matcher)
	return m
}

func (d *Diff) compare(path string, got, want any) {
	if m := d.matcher(want); m != nil {
		if !m.Match(got, true) {
			d.add(path, "is %s, want %s", Text(got, maxShown), m)
		}
		return
	}
	switch want := want.(type) {
	case map[string]any:
		if got, ok := got.(map[string]any); ok {
			d.compareObjects(path, got, want)
			return
		}
	case []any:
		if got, ok := got.([]any); ok {
			d.compareArrays(path, got, want)
			return
		}
	case json.Number:
		if got, ok := got.(json.Number); ok && canonical.SameNumber([]byte(got), []byte(want)) {
			return
		}
	default:
		if got == want {
			return
		}
	}
	gotText, wantText := Text(got, maxShown), Text(want, maxShown)
	d.Distance += Distance(gotText, wantText)
	d.add(path, "is %s, want %s", gotText, wantText)
}

// Distance returns the edit distance of the first 100 bytes of two strings.
func Distance(a, b string) int { return spell.Distance(a[:min(len(a), 100)], b[:min(len(b), 100)]) }

func (d *Diff) compareObjects(path string, got, want map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(want)) {
		value, ok := got[key]
		if ok {
			d.compare(join(path, key), value, want[key])
			continue
		}
		shown := Text(want[key], maxShown)
		if m := d.matcher(want[key]); m != nil {
			if m.Match(nil, false) {
				continue
			}
			shown = m.String()
		}
		d.add(join(path, key), "is missing, want %s", shown)
	}
	if d.subset {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[key]; !ok {
			d.add(join(path, key), "is %s, want no value", Text(got[key], maxShown))
		}
	}
}

func (d *Diff) compareArrays(path string, got, want []any) {
	for i := range min(len(got), len(want)) {
		d.compare(fmt.Sprintf("%s[%d]", path, i), got[i], want[i])
	}
	for i := len(want); i < len(got); i++ {
		d.add(fmt.Sprintf("%s[%d]", path, i), "is %s, want no value", Text(got[i], maxShown))
	}
	for i := len(got); i < len(want); i++ {
		d.add(fmt.Sprintf("%s[%d]", path, i), "is missing, want %s", Text(want[i], maxShown))
	}
}

// join appends a key to a path, as in properties.plan or traits["first name"].
func join(path, key string) string {
	return string(canonical.AppendKey([]byte(path), strconv.AppendQuote(nil, key)))
}

// Text returns a value as JSON, truncated to most bytes.
func Text(v any, most int) string {
	return text.CutBytes(most, string(text.JSON(v, "")))
}
