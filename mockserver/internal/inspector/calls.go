package inspector

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
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

func (in *Inspector) showCalls(r *http.Request) (page.Response, error) {
	q := r.URL.Query()
	before, _ := strconv.ParseInt(q.Get("before"), 10, 64) // an invalid number selects the live page
	filter := rows.ReadFilter(q)
	filter.CheckDestinations(in.c.UnknownDestination)
	status := http.StatusOK
	if filter.Problem != nil {
		if page.IsFragment(r) { // the user is still typing
			return page.Response{Template: "calls", Part: "problem", Page: page.Page{Body: filter}}, nil
		}
		status = http.StatusUnprocessableEntity
	}
	p := callsPage{list: in.list(filter, max(before, 0)), Fields: search.Fields}
	if page.IsFragment(r) {
		return page.Response{Template: "calls", Part: "found", Page: page.Page{Body: p.list}}, nil
	}
	if ref := q.Get("call"); ref != "" {
		panel, ok := in.panel(ref, p.Filter)
		p.Panel, p.Missing = panel, !ok
	}
	if p.Total == 0 && p.Filter.Empty() {
		p.First = in.firstRun(r)
	}
	p.Tally = in.tallyJSON()
	return page.Response{Template: "calls", Status: status, Page: page.Page{Title: "Calls", Nav: "calls", Body: p}}, nil
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

// listRows is the number of rows per page.
const listRows = 200

// A list is a page of rows.
type list struct {
	Rows    []rows.Row
	Matched int
	Total   int
	Older   int64 // value of Before for the next page; 0 on the last page
	Before  int64 // the page shows items with a smaller order; 0 for the live page
	Filter  rows.Filter
	From    string // position where a stream continues
	// RejectedSince is the time since which rejected calls are listed. It is zero if the search
	// is not for rejected calls.
	RejectedSince time.Time
}

// NothingShown returns the text to display for an empty list.
func (l list) NothingShown() string {
	switch {
	case l.Filter.Problem != nil:
		return "The search is invalid."
	case l.Filter.Empty():
		return "No calls yet. New calls appear here."
	}
	return "No matching calls. New matches appear here."
}

// Hidden returns the number of items that do not match the filter.
func (l list) Hidden() int { return l.Total - l.Matched }

// list returns the newest matching rows and the numbers of items. If before is positive, it returns
// only items with a smaller order.
func (in *Inspector) list(filter rows.Filter, before int64) list {
	h := in.c.History()
	destinations := in.c.Attached()
	match := filter.Matcher(destinations)
	end, held := h.End()
	l := list{Filter: filter, Before: before, From: end.String(), Total: held}
	if slices.ContainsFunc(filter.Query, func(t search.Term) bool { return !t.Not && t.Field == "status" && t.Value == "rejected" }) {
		l.RejectedSince = h.RejectedSince()
	}
	var shown []history.Item
	h.Scan(end.Order+1, func(i *history.Item) bool {
		if !match(i) {
			return true
		}
		l.Matched++
		if before > 0 && i.Order >= before {
			return true
		}
		if len(shown) == listRows {
			l.Older = shown[listRows-1].Order
		} else {
			shown = append(shown, i.Snapshot())
		}
		// Without a filter, all items match, so Scan can stop early.
		return l.Older == 0 || !filter.Empty()
	})
	if filter.Empty() {
		l.Matched = l.Total
	}
	for i := range shown {
		l.Rows = append(l.Rows, rows.New(h, &shown[i], filter, destinations))
	}
	return l
}

// count counts the items, the matching items, and the items of each facet.
func (in *Inspector) count(filter rows.Filter, match func(*history.Item) bool) counts {
	end, total := in.c.History().End()
	add, facets := filter.FacetCounter(in.c.Attached())
	l := list{Filter: filter, Total: total}
	in.c.History().Scan(end.Order+1, func(i *history.Item) bool {
		if match(i) {
			l.Matched++
		}
		add(i)
		return true
	})
	html, _ := page.Render("calls", "count", l)
	return counts{html, facets}
}
