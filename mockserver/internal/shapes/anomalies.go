package shapes

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

// maxAnomalies bounds those of an event that are told.
const maxAnomalies = 50

// findAnomalies finds what is odd about an event, apart from its name.
func (e *Event) findAnomalies(now time.Time) {
	for i := range e.Properties {
		p := &e.Properties[i]
		e.findTypes(p)
		e.findValues(p)
		e.findChange(p, now)
	}
	e.findNames()
	if len(e.Anomalies) > maxAnomalies {
		e.Anomalies = e.Anomalies[:maxAnomalies]
	}
}

func (e *Event) addAnomaly(kind AnomalyKind, p *Property, o Anomaly, format string, args ...any) {
	o.Kind, o.Path, o.Text = kind, p.Path, fmt.Sprintf(format, args...)
	e.Anomalies = append(e.Anomalies, o)
}

// general puts integers to numbers: senders write 3 for 3.0.
func baseType(typ string) string {
	if typ == "integer" {
		return "number"
	}
	return typ
}

// nouns are types in words.
var nouns = map[string]string{"number": "a number", "string": "a string", "boolean": "a boolean", "object": "an object", "array": "an array"}

// findTypes finds values of another type than the usual one. No value, null, is none.
func (e *Event) findTypes(p *Property) {
	counts := map[string]uint64{}
	var order []string // the first types of their kind, the most frequent first
	for _, t := range p.Types {
		if t.Name == "null" {
			continue
		}
		if counts[baseType(t.Name)] == 0 {
			order = append(order, t.Name)
		}
		counts[baseType(t.Name)] += t.Count
	}
	if len(order) < 2 {
		return
	}
	slices.SortStableFunc(order, func(a, b string) int { return int(counts[baseType(b)]) - int(counts[baseType(a)]) })
	for _, typ := range order[1:] {
		n := counts[baseType(typ)]
		e.addAnomaly(MixedTypes, p, Anomaly{Type: typ}, "%s is %s in %s (%s of %s), and %s otherwise",
			p.Path, nouns[baseType(typ)], Percent(n, p.Values), text.GroupDigits(int64(n)), text.Plural(int64(p.Values), "value", "values"), nouns[baseType(order[0])])
	}
}

// findValues finds strings that differ in case and white space alone.
func (e *Event) findValues(p *Property) {
	if len(p.Common) < 2 {
		return
	}
	first := map[string]Value{} // the most frequent of those that are alike
	for _, v := range p.Common {
		if v.JSON[0] != '"' {
			continue
		}
		alike := strings.ToLower(strings.Join(strings.Fields(string(v.JSON[1:len(v.JSON)-1])), " "))
		if usual, ok := first[alike]; ok {
			e.addAnomaly(SimilarValues, p, Anomaly{Value: string(v.JSON)}, "%s is %s (%s) beside %s (%s)",
				p.Path, v.JSON, text.GroupDigits(int64(v.Count)), usual.JSON, text.GroupDigits(int64(usual.Count)))
			continue
		}
		first[alike] = v
	}
}

// plain returns what is left of a name without case and what separates words.
func normalize(name string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && r < unicode.MaxASCII {
			return -1
		}
		return unicode.ToLower(r)
	}, name)
}

// findNames finds properties of one object whose names differ in case and separators
// alone.
func (e *Event) findNames() {
	first := map[string]*Property{}
	for i := range e.Properties {
		p := &e.Properties[i]
		last := len(p.steps) - 1
		alike := normalize(p.steps[last])
		if p.steps[last] == element || alike == "" {
			continue
		}
		place := strings.Join(p.steps[:last], "\x00.") + "\x00." + alike
		if usual := first[place]; usual != nil {
			e.addAnomaly(SimilarProperties, p, Anomaly{Other: usual.Path}, "%s (%s) stands beside %s (%s)",
				p.Path, text.Plural(int64(p.Calls), "call", "calls"), usual.Path, text.Plural(int64(usual.Calls), "call", "calls"))
			continue
		}
		first[place] = p
	}
}

const (
	// minCalls is of how many calls nothing is concluded.
	minCalls = 20
	// chance is the natural logarithm of how probable something may be by chance.
	chance = -20
	// newPropertyAge is for how long a property is told to be new.
	newPropertyAge = 7 * 24 * time.Hour
)

// isSignificant reports whether it is no chance that something with a share is in none of n
// calls.
func isSignificant(share float64, n uint64) bool {
	return n >= minCalls && float64(n)*math.Log(1-min(share, 0.999)) < chance
}

// findChange finds a property that calls do not have any more, or have since lately. Where
// it stands in another that is so, that one is told.
func (e *Event) findChange(p *Property, now time.Time) {
	until, since := p.Sampled-p.missing, p.Sampled-p.before
	switch {
	case until >= minCalls && isSignificant(share(p.Calls, until), p.missing):
		if !e.hasParent(p, PropertyGone) {
			e.addAnomaly(PropertyGone, p, Anomaly{}, "%s was in %s of the calls, and is in none of the last %s looked at", p.Path, Percent(p.Calls, until), text.GroupDigits(int64(p.missing)))
		}
	case since >= minCalls && isSignificant(share(p.Calls, since), p.before) && now.Sub(p.FirstSeen) < newPropertyAge:
		if !e.hasParent(p, PropertyNew) {
			e.addAnomaly(PropertyNew, p, Anomaly{}, "%s is new: it was in none of the first %s looked at, and since then it is in %s", p.Path, text.Plural(int64(p.before), "call", "calls"), Percent(p.Calls, since))
		}
	}
}

// hasParent reports whether the property stands in one of which the same was told.
func (e *Event) hasParent(p *Property, kind AnomalyKind) bool {
	return slices.ContainsFunc(e.Anomalies, func(o Anomaly) bool {
		rest, in := strings.CutPrefix(p.Path, o.Path)
		return o.Kind == kind && in && rest != "" && (rest[0] == '.' || rest[0] == '[')
	})
}

// Percent writes a share for people. What is not all is never written as all, nor
// something as nothing.
func Percent(n, of uint64) string {
	p := 100 * share(n, of)
	switch {
	case n == of || n == 0:
		return fmt.Sprintf("%.0f %%", p)
	case p < 0.1:
		return "under 0.1 %"
	case p > 99.9:
		return "over 99.9 %"
	case p < 10 || p > 90:
		return strconv.FormatFloat(p, 'f', 1, 64) + " %"
	}
	return fmt.Sprintf("%.0f %%", p)
}
