package inspector

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/page"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/rows"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/search"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/shapes"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// maxEventLines limits the listed events.
const maxEventLines = 500

// An eventsPage lists events.
type eventsPage struct {
	shapes.Summary
	Lines   []eventLine
	Hidden  int // number of matching events beyond maxEventLines
	Total   int // number of all events
	Source  string
	Find    string // part of an event name; ignores case
	Odd     bool   // whether to show only events with anomalies
	Sort    string // see sortEvents
	Columns []eventColumn
	Sources []string
}

// An eventColumn is a header with a link that sorts by the column, or reverses the order.
type eventColumn struct {
	Label, Class, Href string
	Order              string // ascending, descending, or empty if another column is sorted
}

// eventColumns are the columns of the list. The first order of a number or time is descending.
var eventColumns = []struct {
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

// sortEvents sorts events by the column that the parameter sort names. A minus sign reverses the order.
// It returns the headers.
func sortEvents(events []*shapes.Event, q url.Values) (headers []eventColumn) {
	name, reversed := strings.CutPrefix(q.Get("sort"), "-")
	for _, c := range eventColumns {
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
		headers = append(headers, eventColumn{c.label, c.class, "/events?" + q.Encode(), order})
	}
	return headers
}

// An eventLine is an event in the list.
type eventLine struct {
	*shapes.Event
	Href string
}

// More returns the number of anomalies after the first.
func (l eventLine) More() int { return len(l.Anomalies) - 1 }

func (in *Inspector) showEvents(r *http.Request) (page.Response, error) {
	q := r.URL.Query()
	list := eventsPage{Summary: in.c.Shapes().Summary(), Source: q.Get("source"), Find: q.Get("find"), Odd: q.Get("odd") != ""}
	list.Sort = q.Get("sort")
	find := strings.ToLower(list.Find)
	var found []*shapes.Event
	all := in.c.Shapes().Events()
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
	list.Columns = sortEvents(found, q)
	shown := found[:min(len(found), maxEventLines)]
	list.Hidden = len(found) - len(shown)
	for _, e := range shown {
		list.Lines = append(list.Lines, eventLine{e, eventHref(e)})
	}
	return page.Response{Template: "events", Page: page.Page{Title: "Events", Nav: "events", Body: &list}}.OrPart(r, "lines"), nil
}

// A plansPage lists plan violations, most frequent first.
type plansPage struct {
	shapes.Summary
	Lines        []planLine
	Hidden       int    // number of violations beyond maxEventLines
	Rejected     int    // number of retained calls that were rejected because of a plan
	RejectedHref string // URL of the list of these calls
}

// A planLine is a plan violation of an event.
type planLine struct {
	violation
	Event *shapes.Event
	Href  string // URL of the event page
}

func (in *Inspector) showPlans(r *http.Request) (page.Response, error) {
	list := plansPage{Summary: in.c.Shapes().Summary()}
	list.RejectedHref = rows.Filter{Query: search.Query{{Field: "status", Value: "rejected"}, {Value: string(tracking.CodeNotAsPlanned)}}}.Link("/")
	rejections, _ := in.c.History().Rejections()
	for i := range rejections {
		if rejections[i].Code == tracking.CodeNotAsPlanned {
			list.Rejected++
		}
	}
	events := in.c.Shapes().Events()
	for i := range events {
		e := &events[i]
		for _, v := range e.Violations {
			list.Lines = append(list.Lines, planLine{violation{v, refOf(e, v.Call)}, e, eventHref(e)})
		}
	}
	slices.SortStableFunc(list.Lines, func(a, b planLine) int { return cmp.Compare(b.Calls, a.Calls) })
	shown := list.Lines[:min(len(list.Lines), maxEventLines)]
	list.Hidden = len(list.Lines) - len(shown)
	list.Lines = shown
	return page.Response{Template: "plans", Page: page.Page{Title: "Plan violations", Nav: "events", Body: &list}}.OrPart(r, "violations"), nil
}
