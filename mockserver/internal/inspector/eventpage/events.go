package eventpage

import (
	"net/http"
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
	Sources []string
}

// A line is an event in the list.
type line struct {
	shapes.Event
	Href string
}

// More returns the number of anomalies after the first.
func (l line) More() int { return len(l.Anomalies) - 1 }

func (p *pages) showEvents(r *http.Request) (page.Answer, error) {
	q := r.URL.Query()
	list := eventsPage{Summary: p.c.Shapes().Summary(), Source: q.Get("source"), Find: q.Get("find"), Odd: q.Get("odd") != ""}
	find := strings.ToLower(list.Find)
	for _, e := range p.c.Shapes().Events() {
		list.Total++
		if !slices.Contains(list.Sources, e.Source) {
			list.Sources = append(list.Sources, e.Source)
		}
		switch {
		case list.Source != "" && e.Source != list.Source,
			!strings.Contains(strings.ToLower(e.Name), find),
			list.Odd && len(e.Anomalies) == 0 && e.Violating == 0:
		case len(list.Lines) == maxLines:
			list.Hidden++
		default:
			list.Lines = append(list.Lines, line{e, href(&e)})
		}
	}
	return page.Answer{Template: "events", Page: page.Page{Title: "Events", Nav: "events", Body: &list}}.OrPart(r, "lines"), nil
}
