package shapes

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/internal/spell"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

// maxAnomalies is the maximum number of anomalies listed for an event.
const maxAnomalies = 50

// findAnomalies finds the anomalies of the event's properties.
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

// nouns maps type names to noun phrases for sentences.
var nouns = map[string]string{"integer": "a number", "number": "a number", "string": "a string", "boolean": "a boolean", "object": "an object", "array": "an array"}

// findTypes finds values of unusual types. It ignores null.
func (e *Event) findTypes(p *Property) {
	types := slices.DeleteFunc(p.JSONTypes(), func(t Type) bool { return t.Name == "null" })
	for _, t := range types[min(1, len(types)):] {
		e.addAnomaly(MixedTypes, p, Anomaly{Type: t.Name}, "%s is usually %s, but %s in %s (%s of %s)",
			p.Path, nouns[types[0].Name], nouns[t.Name], Percent(t.Count, p.Values), text.GroupDigits(int64(t.Count)), text.Plural(int64(p.Values), "value", "values"))
	}
}

// findValues finds strings that differ only in case and white space.
func (e *Event) findValues(p *Property) {
	if len(p.Common) < 2 {
		return
	}
	first := map[string]Value{} // the most frequent value of each group of similar values
	for _, v := range p.Common {
		if v.JSON[0] != '"' {
			continue
		}
		similar := strings.ToLower(strings.Join(strings.Fields(string(v.JSON[1:len(v.JSON)-1])), " "))
		if usual, ok := first[similar]; ok {
			e.addAnomaly(SimilarValues, p, Anomaly{Value: string(v.JSON)}, "%s has similar values: %s (%s) and %s (%s)",
				p.Path, v.JSON, text.GroupDigits(int64(v.Count)), usual.JSON, text.GroupDigits(int64(usual.Count)))
			continue
		}
		first[similar] = v
	}
}

// findNames finds properties of one object with names that differ only in case and separators.
func (e *Event) findNames() {
	first := map[string]*Property{}
	for i := range e.Properties {
		p := &e.Properties[i]
		last := len(p.steps) - 1
		similar := spell.Plain(p.steps[last])
		if p.steps[last] == element || similar == "" {
			continue
		}
		place := strings.Join(p.steps[:last], "\x00.") + "\x00." + similar
		if usual := first[place]; usual != nil {
			e.addAnomaly(SimilarProperties, p, Anomaly{Other: usual.Path}, "%s (%s) is similar to %s (%s)",
				p.Path, text.Plural(int64(p.Calls), "call", "calls"), usual.Path, text.Plural(int64(usual.Calls), "call", "calls"))
			continue
		}
		first[place] = p
	}
}

const (
	// minCalls is the minimum number of calls for a conclusion.
	minCalls = 20
	// chance is the natural logarithm of a probability. An observation that is less probable is
	// not considered a coincidence.
	chance = -20
	// newPropertyAge is how long a property is reported as new.
	newPropertyAge = 7 * 24 * time.Hour
)

// isSignificant reports whether the absence of a property from n calls is probably not a
// coincidence. share is the share of other calls with the property.
func isSignificant(share float64, n uint64) bool {
	return n >= minCalls && float64(n)*math.Log(1-min(share, 0.999)) < chance
}

// findChange finds new properties, and properties that are no longer sent. It reports neither if
// the same was reported for a parent of the property.
func (e *Event) findChange(p *Property, now time.Time) {
	until, since := p.Sampled-p.missing, p.Sampled-p.before
	switch {
	case until >= minCalls && isSignificant(share(p.Calls, until), p.missing):
		if !e.hasParent(p, PropertyGone) {
			e.addAnomaly(PropertyGone, p, Anomaly{}, "%s was in %s of the calls, but is in none of the last %s sampled calls", p.Path, Percent(p.Calls, until), text.GroupDigits(int64(p.missing)))
		}
	case since >= minCalls && isSignificant(share(p.Calls, since), p.before) && now.Sub(p.FirstSeen) < newPropertyAge:
		if !e.hasParent(p, PropertyNew) {
			e.addAnomaly(PropertyNew, p, Anomaly{}, "%s is new: it is in none of the first %s sampled calls, and in %s since then", p.Path, text.GroupDigits(int64(p.before)), Percent(p.Calls, since))
		}
	}
}

// hasParent reports whether an anomaly of this kind was found for a parent of the property.
func (e *Event) hasParent(p *Property, kind AnomalyKind) bool {
	return slices.ContainsFunc(e.Anomalies, func(o Anomaly) bool {
		rest, in := strings.CutPrefix(p.Path, o.Path)
		return o.Kind == kind && in && rest != "" && (rest[0] == '.' || rest[0] == '[')
	})
}

// Percent formats a share. It does not round up to 100 % or down to 0 %.
func Percent(n, of uint64) string {
	p := 100 * share(n, of)
	switch {
	case n == of || n == 0:
		return fmt.Sprintf("%.0f %%", p)
	case p < 0.1:
		return "less than 0.1 %"
	case p > 99.9:
		return "more than 99.9 %"
	case p < 10 || p > 90:
		return strconv.FormatFloat(p, 'f', 1, 64) + " %"
	}
	return fmt.Sprintf("%.0f %%", p)
}
