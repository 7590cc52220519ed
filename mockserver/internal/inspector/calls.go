package inspector

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/page"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/rows"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/search"
)

// callsPage is the page of calls.
type callsPage struct {
	list
	First   *firstRun      // set while no call has come
	Panel   *callPanel     // the call beside the list
	Missing bool           // a call was asked for that is not remembered
	Tally   string         // the chart's seconds, as JSON
	Fields  []search.Field // that the search has
}

func (in *Inspector) showCalls(r *http.Request) (page.Answer, error) {
	q := r.URL.Query()
	before, _ := strconv.ParseInt(q.Get("before"), 10, 64) // nonsense is the live page
	filter := rows.ReadFilter(q)
	status := http.StatusOK
	if filter.Problem != nil {
		if page.IsFragment(r) { // of what is still being written
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
	if p.Total == 0 {
		p.First = in.firstRun(r)
	}
	p.Tally = in.tallyJSON()
	return page.Answer{Template: "calls", Status: status, Page: page.Page{Title: "Calls", Nav: "calls", Body: p}}, nil
}

// sourceNames returns the sources of the settings, and those that calls came from.
func (in *Inspector) sourceNames() []string {
	var names []string
	for _, s := range in.c.Settings().Sources {
		names = append(names, s.Name)
	}
	for _, name := range in.c.History().Sources(1000) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names[:min(len(names), 200)]
}
