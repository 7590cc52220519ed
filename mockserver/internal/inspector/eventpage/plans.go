package eventpage

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/page"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/rows"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/search"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/shapes"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A plansPage lists plan violations, most frequent first.
type plansPage struct {
	shapes.Summary
	Lines        []planLine
	Hidden       int    // number of violations beyond maxLines
	Rejected     int    // number of retained calls that were rejected because of a plan
	RejectedHref string // URL of the list of these calls
}

// A planLine is a plan violation of an event.
type planLine struct {
	violation
	Event *shapes.Event
	Href  string // URL of the event page
}

func (p *pages) showPlans(r *http.Request) (page.Answer, error) {
	list := plansPage{Summary: p.c.Shapes().Summary()}
	list.RejectedHref = rows.Filter{Query: search.Query{{Field: "status", Value: "rejected"}, {Value: string(tracking.CodeNotAsPlanned)}}}.Link("/")
	rejections, _ := p.c.History().Rejections()
	for i := range rejections {
		if rejections[i].Code == tracking.CodeNotAsPlanned {
			list.Rejected++
		}
	}
	events := p.c.Shapes().Events()
	for i := range events {
		e := &events[i]
		for _, v := range e.Violations {
			list.Lines = append(list.Lines, planLine{violation{v, refOf(e, v.Call)}, e, href(e)})
		}
	}
	slices.SortStableFunc(list.Lines, func(a, b planLine) int { return cmp.Compare(b.Calls, a.Calls) })
	shown := list.Lines[:min(len(list.Lines), maxLines)]
	list.Hidden = len(list.Lines) - len(shown)
	list.Lines = shown
	return page.Answer{Template: "plans", Page: page.Page{Title: "Plan violations", Nav: "events", Body: &list}}.OrPart(r, "violations"), nil
}
