package inspector

import (
	"net/http"
	"strconv"
)

// callsPage is the page of calls.
type callsPage struct {
	list
	Sources  []string
	Types    []string
	Statuses []status
	First    *firstRun  // set while no call has come
	Panel    *callPanel // the call beside the list
	Missing  bool       // a call was asked for that is not remembered
	Tally    string     // the chart's seconds, as JSON
}

func (in *Inspector) showCalls(r *http.Request) (answer, error) {
	q := r.URL.Query()
	before, _ := strconv.ParseInt(q.Get("before"), 10, 64) // nonsense is the live page
	p := callsPage{list: in.list(readFilter(q), max(before, 0)), Sources: in.sourceNames(), Types: shownTypes, Statuses: statuses}
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
	seen := map[string]bool{}
	add := func(name string) {
		if name != "" && !seen[name] && len(names) < 200 {
			seen[name] = true
			names = append(names, name)
		}
	}
	for _, s := range in.c.Settings().Sources {
		add(s.Name)
	}
	for _, name := range in.c.History().Sources(1000) {
		add(name)
	}
	return names
}
