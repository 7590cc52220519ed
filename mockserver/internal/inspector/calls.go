package inspector

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/page"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/rows"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/search"
)

// callsPage is the Calls page.
type callsPage struct {
	list
	First   *firstRun      // nil after the first call, and for a search
	Panel   *callPanel     // open call, or nil
	Missing bool           // whether the requested call has expired
	Tally   string         // chart data as JSON
	Fields  []search.Field // search fields that the help lists
}

func (in *Inspector) showCalls(r *http.Request) (page.Answer, error) {
	q := r.URL.Query()
	before, _ := strconv.ParseInt(q.Get("before"), 10, 64) // an invalid number selects the live page
	filter := rows.ReadFilter(q)
	filter.CheckDestinations(in.c.UnknownDestination)
	status := http.StatusOK
	if filter.Problem != nil {
		if page.IsFragment(r) { // the user is still typing
			return page.Answer{Template: "calls", Part: "problem", Page: page.Page{Body: filter}}, nil
		}
		status = http.StatusUnprocessableEntity
	}
	p := callsPage{list: in.list(filter, max(before, 0)), Fields: search.Fields}
	if page.IsFragment(r) {
		return page.Answer{Template: "calls", Part: "found", Page: page.Page{Body: p.list}}, nil
	}
	if ref := q.Get("call"); ref != "" {
		panel, ok := in.panel(ref, p.Filter)
		p.Panel, p.Missing = panel, !ok
	}
	if p.Total == 0 && p.Filter.Empty() {
		p.First = in.firstRun(r)
	}
	p.Tally = in.tallyJSON()
	return page.Answer{Template: "calls", Status: status, Page: page.Page{Title: "Calls", Nav: "calls", Body: p}}, nil
}

// sourceNames returns the sources in the settings and the history, at most 200.
func (in *Inspector) sourceNames() []string {
	names := in.c.Settings().SourceNames()
	for _, name := range in.c.History().Sources(1000) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names[:min(len(names), 200)]
}
