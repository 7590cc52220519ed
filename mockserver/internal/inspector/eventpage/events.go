package eventpage

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/page"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/shapes"
)

// maxLines limits the listed events.
const maxLines = 500

// An eventsPage lists events.
type eventsPage struct {
	shapes.Summary
	Lines   []line
	Hidden  int // number of matching events beyond maxLines
	Total   int // number of all events
	Source  string
	Find    string // part of an event name; ignores case
	Odd     bool   // whether to show only events with anomalies
	Sort    string // see sorted
	Columns []column
	Sources []string
}

// A column is a header with a link that sorts by the column, or reverses the order.
type column struct {
	Label, Class, Href string
	Order              string // ascending, descending, or empty if another column is sorted
}

// columns are the columns of the list. The first order of a number or time is descending.
var columns = []struct {
	name, label, class string
	descending         bool
	compare            func(a, b *shapes.Event) int
}{
	{"event", "Event", "", false, func(a, b *shapes.Event) int { return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)) }},
	{"source", "Source", "", false, func(a, b *shapes.Event) int { return strings.Compare(a.Source, b.Source) }},
	{"calls", "Calls", "num", true, func(a, b *shapes.Event) int { return cmp.Compare(b.Calls, a.Calls) }},
	{"seen", "Last seen", "", true, func(a, b *shapes.Event) int { return b.LastSeen.Compare(a.LastSeen) }},
	{"properties", "Properties", "num", true, func(a, b *shapes.Event) int { return cmp.Compare(len(b.Properties), len(a.Properties)) }},
	{"anomalies", "Anomalies", "", true, func(a, b *shapes.Event) int {
		return cmp.Or(cmp.Compare(len(b.Anomalies), len(a.Anomalies)), cmp.Compare(b.Violating, a.Violating))
	}},
}

// sorted sorts events by the column that the parameter sort names. A minus sign reverses the order.
// It returns the headers.
func sorted(events []*shapes.Event, q url.Values) (headers []column) {
	name, reversed := strings.CutPrefix(q.Get("sort"), "-")
	for _, c := range columns {
		next, order := c.name, ""
		if c.name == name {
			slices.SortStableFunc(events, c.compare)
			if reversed {
				slices.Reverse(events)
			} else {
				next = "-" + next
			}
			if order = "ascending"; c.descending != reversed {
				order = "descending"
			}
		}
		q.Set("sort", next)
		headers = append(headers, column{c.label, c.class, "/events?" + q.Encode(), order})
	}
	return headers
}

// A line is an event in the list.
type line struct {
	*shapes.Event
	Href string
}

// More returns the number of anomalies after the first.
func (l line) More() int { return len(l.Anomalies) - 1 }

func (p *pages) showEvents(r *http.Request) (page.Answer, error) {
	q := r.URL.Query()
	list := eventsPage{Summary: p.c.Shapes().Summary(), Source: q.Get("source"), Find: q.Get("find"), Odd: q.Get("odd") != ""}
	list.Sort = q.Get("sort")
	find := strings.ToLower(list.Find)
	var found []*shapes.Event
	all := p.c.Shapes().Events()
	list.Total = len(all)
	for i := range all {
		e := &all[i]
		if !slices.Contains(list.Sources, e.Source) {
			list.Sources = append(list.Sources, e.Source)
		}
		if (list.Source == "" || e.Source == list.Source) && strings.Contains(strings.ToLower(e.Name), find) &&
			(!list.Odd || len(e.Anomalies) > 0 || e.Violating > 0) {
			found = append(found, e)
		}
	}
	list.Columns = sorted(found, q)
	shown := found[:min(len(found), maxLines)]
	list.Hidden = len(found) - len(shown)
	for _, e := range shown {
		list.Lines = append(list.Lines, line{e, href(e)})
	}
	return page.Answer{Template: "events", Page: page.Page{Title: "Events", Nav: "events", Body: &list}}.OrPart(r, "lines"), nil
}
