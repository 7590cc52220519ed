package rows

import (
	"slices"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/search"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A Choice is a term that replaces the terms of some fields in a filter.
type Choice struct {
	Name   string // of a status: the name of its count; empty for all items
	Label  string
	Href   string
	Chosen bool // whether the filter has this term and no others of these fields
}

// choice returns the choice of a term, which may be empty.
func (f Filter) choice(label, term string, fields ...string) Choice {
	rest := f.Query.Drop(fields...)
	terms, _ := search.Parse(term) // cannot fail
	chosen := len(rest)+len(terms) == len(f.Query) && (len(terms) == 0 || slices.ContainsFunc(f.Query, func(t search.Term) bool { return t.String() == term }))
	return Choice{Label: label, Href: Filter{Query: append(slices.Clip(rest), terms...)}.Link("/"), Chosen: chosen}
}

// facets are the choices of a status, as terms.
var facets = []struct{ name, label, term string }{
	{"", "All", ""}, {"accepted", "Accepted", "-status:rejected"}, {"rejected", "Rejected", "status:rejected"},
	{"failed", "Failed", "status:failed"}, {"pending", "Pending", "status:pending"}, {"delivered", "Delivered", "status:delivered"}, {"filtered", "Filtered", "status:filtered"},
}

// Facets returns the choices of a status.
func (f Filter) Facets() []Choice {
	choices := make([]Choice, len(facets))
	for i, facet := range facets {
		choices[i] = f.choice(facet.label, facet.term, "status")
		choices[i].Name = facet.name
	}
	return choices
}

// FacetCounter returns a function that adds an item to the counts of the facets by name. The function
// may be called with the history locked.
func (f Filter) FacetCounter(destinations []engine.AttachedDestination) (add func(*history.Item), counts map[string]int) {
	m := Filter{Query: f.Query.Drop("status")}.matcher(destinations)
	counts = map[string]int{}
	for _, facet := range facets {
		counts[facet.name] = 0
	}
	return func(i *history.Item) {
		if f.Problem != nil || !m.match(i) {
			return
		}
		counts[""]++
		if i.Record == nil {
			counts["rejected"]++
			return
		}
		counts["accepted"]++
		var seen [tracking.StateFiltered + 1]bool
		for e, known := range engine.States(i.Record, destinations) {
			if known && !seen[e.State] && m.selects(e.Destination) {
				seen[e.State] = true
				counts[e.State.String()]++
			}
		}
	}, counts
}
