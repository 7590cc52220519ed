package rows

import (
	"slices"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/search"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A Facet is a choice of a status.
type Facet struct {
	Name   string // key of the count; empty for all items
	Label  string
	Href   string
	Chosen bool
}

// facets are the choices of a status, as terms.
var facets = []struct{ name, label, term string }{
	{"", "All", ""}, {"accepted", "Accepted", "-status:rejected"}, {"rejected", "Rejected", "status:rejected"},
	{"failed", "Failed", "status:failed"}, {"pending", "Pending", "status:pending"}, {"delivered", "Delivered", "status:delivered"}, {"filtered", "Filtered", "status:filtered"},
}

// Facets returns the choices of a status, with the other terms of the filter.
func (f Filter) Facets() []Facet {
	rest := f.Query.Drop("status")
	var choices []Facet
	for _, facet := range facets {
		terms, _ := search.Parse(facet.term) // cannot fail
		chosen := len(rest)+len(terms) == len(f.Query) && (len(terms) == 0 || slices.ContainsFunc(f.Query, func(t search.Term) bool { return t.String() == facet.term }))
		choices = append(choices, Facet{facet.name, facet.label, Filter{Query: append(slices.Clip(rest), terms...)}.Link("/"), chosen})
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
		for s := range states(i.Record, destinations) {
			if !s.Unknown && !seen[s.State] && m.selects(s.Destination) {
				seen[s.State] = true
				counts[s.State.String()]++
			}
		}
	}, counts
}
