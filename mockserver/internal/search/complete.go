package search

import (
	"cmp"
	"slices"
	"strings"
)

// Known are names and values that calls have, for Complete to offer.
type Known struct {
	Values map[string][]string // of a field, such as event; the commonest first
	// Members returns the paths of members that an object has, without the field, such as
	// plan, and the values of one of them.
	Members func(field string) [][]string
	Samples func(field string, path []string) []string
}

// A Suggestion is one way to go on.
type Suggestion struct {
	Text  string // the query up to the cursor, with it
	Label string // the term, or its beginning
	About string
	Done  bool // the term is whole
}

// maxSuggestions is how many Complete offers.
const maxSuggestions = 12

// Complete says how the last term of what was written up to the cursor may go on.
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
				for _, path := range known.members(f.Name) {
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

func (k Known) members(field string) [][]string {
	if k.Members == nil {
		return nil
	}
	return k.Members(field)
}

// ages are offered for since and until.
var ages = []string{"5m", "15m", "1h", "24h", "7d"}

// valuesOf returns values of the field of a term: first those that it can have, then those
// that calls have.
func valuesOf(t Term, known Known) []string {
	f := fieldNamed(t.Field)
	switch {
	case f.kind == timeField:
		return ages
	case f.kind == memberField && known.Samples != nil:
		return known.Samples(t.Field, t.Path)
	case len(f.Values) > 0:
		return f.Values
	}
	return known.Values[t.Field]
}

// lastTerm returns where the term begins that the end of a text is in.
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

// Counter counts values, to offer the commonest first.
type Counter map[string]int

// Add counts a value once more.
func (c Counter) Add(value string) {
	const most = 1000
	if _, known := c[value]; known || len(c) < most {
		c[value]++
	}
}

// Commonest returns the values, the commonest first.
func (c Counter) Commonest() []string {
	values := make([]string, 0, len(c))
	for value := range c {
		values = append(values, value)
	}
	slices.SortFunc(values, func(a, b string) int { return cmp.Or(cmp.Compare(c[b], c[a]), cmp.Compare(a, b)) })
	return values
}
