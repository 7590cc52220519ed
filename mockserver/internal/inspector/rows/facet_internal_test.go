package rows

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// TestFacetsCountTheCallsThatTheySelect compares the counts with the filters of the facets' links.
func TestFacetsCountTheCallsThatTheySelect(t *testing.T) {
	destinations := []engine.AttachedDestination{{Destination: tracking.Destination{Name: "crm"}}, {Destination: tracking.Destination{Name: "hook"}}}
	call := func(user string, partial bool, states ...tracking.State) *history.Item {
		r := &tracking.Record{Call: tracking.Call{Type: "track", UserID: user}, Partial: partial}
		for i, state := range states {
			r.Ends = append(r.Ends, tracking.Ended{Destination: destinations[i].Name, Outcome: tracking.Outcome{State: state}})
		}
		return &history.Item{Record: r}
	}
	items := []*history.Item{
		call("ada", false), call("ada", true), call("ada", false, tracking.StateFailed), call("ada", false, tracking.StateDelivered, tracking.StateDelivered),
		call("bob", false, tracking.StateFailed, tracking.StateFiltered), call("bob", true, tracking.StatePending),
		{Rejection: &tracking.Rejection{Body: []byte(`{}`)}, Read: &tracking.Call{UserID: "ada", Body: []byte(`{}`)}}, {Refusal: &event.Refusal{Status: 400}},
	}
	for _, search := range []string{"", "user:ada", "-user:ada status:failed", "destination:crm", "destination:hook status:4xx", "status:rejected"} {
		filter := ReadFilter(url.Values{"q": {search}})
		add, counts := filter.FacetCounter(destinations)
		for _, i := range items {
			add(i)
		}
		for _, facet := range filter.Facets() {
			link, err := url.Parse(facet.Href)
			require.NoError(t, err)
			match, n := ReadFilter(link.Query()).Matcher(destinations), 0
			for _, i := range items {
				if match(i) {
					n++
				}
			}
			assert.Equal(t, n, counts[facet.Name], "%s: %s", search, facet.Href)
		}
	}
	chosen := func(search string) (names string) {
		for _, facet := range ReadFilter(url.Values{"q": {search}}).Facets() {
			if facet.Chosen {
				names += facet.Label
			}
		}
		return names
	}
	for search, want := range map[string]string{
		"": "All", "user:ada": "All", "status:failed": "Failed", "user:ada status:rejected": "Rejected", "-status:rejected": "Accepted",
		"status:4xx": "", "status:failed status:delivered": "", "-status:failed": "",
	} {
		assert.Equal(t, want, chosen(search), search)
	}
	add, counts := ReadFilter(url.Values{"q": {"evnt:x"}}).FacetCounter(destinations)
	add(items[0])
	assert.Zero(t, counts[""], "an invalid search selects nothing")
}

func BenchmarkFacetCounter(b *testing.B) {
	destinations := make([]engine.AttachedDestination, 5)
	r := &tracking.Record{Call: tracking.Call{Type: "track"}}
	for i := range destinations {
		destinations[i].Name = string(rune('a' + i))
		r.Ends = append(r.Ends, tracking.Ended{Destination: destinations[i].Name, Outcome: tracking.Outcome{State: tracking.StateDelivered}})
	}
	item := &history.Item{Record: r}
	add, _ := Filter{}.FacetCounter(destinations)
	for b.Loop() {
		add(item)
	}
}
