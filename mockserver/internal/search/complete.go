package search

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
)

// Known contains the names and values that Complete suggests.
type Known struct {
	Values map[string][]string // values of each field, most frequent first
	// Members returns the paths in an object of a call, such as plan in its properties. Samples
	// returns values at a path.
	Members func(object fields.Field) [][]string
	Samples func(object fields.Field, path []string) []string
}

// A Suggestion completes a query.
type Suggestion struct {
	Text  string // the completed query up to the cursor
	Label string // the term or its beginning
	About string
	Done  bool // the term is complete
}

// maxSuggestions is the maximum number of suggestions.
const maxSuggestions = 12

// Complete returns suggestions that complete the last term of a query. before is the text before the
// cursor.
func Complete(before string, known Known) []Suggestion {
	if len(before) > MaxBytes {
		return nil
	}
	start := lastTerm(before)
	head, word := before[:start], before[start:]
	minus := ""
	if rest, ok := strings.CutPrefix(word, "-"); ok {
		minus, word = "-", rest
	}
	var found []Suggestion
	add := func(label, about string, done bool) {
		text := head + minus + label
		if done {
			text += " "
		}
		found = append(found, Suggestion{text, minus + label, about, done})
	}
	if strings.HasPrefix(word, `"`) {
		return nil
	}
	p := parser{text: word}
	var t Term
	switch named, err := p.name(&t); {
	case named && err == nil:
		partial := strings.ToLower(strings.TrimPrefix(p.rest(), `"`))
		for _, value := range valuesOf(t, known) {
			label := Term{Field: t.Field, Path: t.Path, Value: value}.String()
			if value != "" && label != word && strings.Contains(strings.ToLower(value), partial) && len(found) < maxSuggestions {
				add(label, "", true)
			}
		}
	default:
		for _, f := range Fields {
			switch {
			case strings.HasPrefix(f.Name, word) && f.kind == memberField:
				add(f.Name+".", f.About, false)
			case strings.HasPrefix(f.Name, word):
				add(f.Name+":", f.About, false)
			case f.kind == memberField && strings.HasPrefix(word, f.Name+"."):
				for _, path := range known.Members(f.object) {
					name := strings.TrimSuffix(Term{Field: f.Name, Path: path, Op: OpExists}.String(), "*")
					if strings.Contains(strings.ToLower(name), strings.ToLower(word)) {
						add(name, "", false)
					}
				}
			}
		}
	}
	return found[:min(len(found), maxSuggestions)]
}

// ages are suggested for since and until.
var ages = []string{"5m", "15m", "1h", "24h", "7d"}

// valuesOf returns the values to suggest for a field: all valid values, or else known values.
func valuesOf(t Term, known Known) []string {
	f := fieldNamed(t.Field)
	switch {
	case f.kind == timeField:
		return ages
	case f.kind == memberField:
		return known.Samples(f.object, t.Path)
	case len(f.Values) > 0:
		return f.Values
	}
	return known.Values[t.Field]
}

// lastTerm returns the offset of the last term in s.
func lastTerm(s string) int {
	start, quoted := 0, false
	for i, r := range s {
		switch {
		case r == '"' && (i == 0 || s[i-1] != '\\'):
			quoted = !quoted
		case !quoted && endsWord(r):
			start = i + len(string(r))
		}
	}
	return start
}

// A Counter counts values.
type Counter map[string]int

// Add counts a value. It ignores new values beyond 1,000.
func (c Counter) Add(value string) {
	const most = 1000
	if _, known := c[value]; known || len(c) < most {
		c[value]++
	}
}

// Commonest returns the values, most frequent first.
func (c Counter) Commonest() []string {
	return slices.SortedFunc(maps.Keys(c), func(a, b string) int { return cmp.Or(cmp.Compare(c[b], c[a]), cmp.Compare(a, b)) })
}
