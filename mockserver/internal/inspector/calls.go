package inspector

import (
	"net/http"
	"slices"
	"strconv"
)

// callsPage is the page of calls.
type callsPage struct {
	list
	Sources  []string
	Statuses []status
	First    *firstRun  // set while no call has come
	Panel    *callPanel // the call beside the list
	Missing  bool       // a call was asked for that is not remembered
	Tally    string     // the chart's seconds, as JSON
}

func (in *Inspector) showCalls(r *http.Request) (answer, error) {
	q := r.URL.Query()
	before, _ := strconv.ParseInt(q.Get("before"), 10, 64) // nonsense is the live page
	p := callsPage{list: in.list(readFilter(q), max(before, 0)), Sources: in.sourceNames(), Statuses: statuses}
	if isFragment(r) {
		return answer{template: "calls", part: "list", page: page{Body: p.list}}, nil
	}
	if ref := q.Get("call"); ref != "" {
		panel, ok := in.panel(ref, p.Filter)
		p.Panel, p.Missing = panel, !ok
	}
	if p.Total == 0 {
		p.First = in.firstRun(r)
	}
	p.Tally = in.tallyJSON()
	return answer{template: "calls", page: page{Title: "Calls", Nav: "calls", Body: p}}, nil
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
