package inspector

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/page"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/rows"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/shapes"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/stats"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

const (
	// shownGroups limits the groups of failures and of refusals.
	shownGroups = 50
	// searched is the number of recent items that are searched for examples.
	searched = 2000
	// shownExamples limits the number of examples per group.
	shownExamples = 3
	// shownRuns limits the number of replays.
	shownRuns = 5
)

type problemsPage struct {
	Since        time.Time
	Runs         []engine.ReplayRun
	Kept         []tracking.Ledger // ledgers with failed calls
	Failed       []causeCard
	Refused      []causeCard
	MoreFailed   int // number of groups that are not shown
	MoreRefused  int
	OtherFailed  stats.Others
	OtherRefused stats.Others
}

// Quiet reports whether there are no problems.
func (l *problemsPage) Quiet() bool {
	return len(l.Failed)+len(l.Refused)+len(l.Runs)+len(l.Kept) == 0
}

// A causeCard is a group of failures or refusals, with links to examples.
type causeCard struct {
	stats.Group
	Examples []example
	Events   []example // event pages of the examples
}

// Title returns the cause, or the message of an example if the cause is empty.
func (c causeCard) Title() string {
	if c.Cause == "" {
		return c.Sample.Message
	}
	return c.Cause
}

// Hint returns how to fix the problem.
func (c causeCard) Hint() string { return event.HintOf(c.Code) }

// Path returns the URL of the replay confirmation.
func (c causeCard) Path() string {
	return page.Link("/problems/replay", "destination", c.Destination, "cause", c.Cause)
}

// An example links a call, a request or an event.
type example struct{ Href, Text, Type string }

func (in *Inspector) showProblems(r *http.Request) (page.Response, error) {
	report := in.c.Problems()
	l := problemsPage{
		Since: report.Since, Runs: in.replayRuns(),
		Failed: causeCards(report.Failed), MoreFailed: max(0, len(report.Failed)-shownGroups), OtherFailed: report.OtherFailed,
		Refused: causeCards(report.Refused), MoreRefused: max(0, len(report.Refused)-shownGroups), OtherRefused: report.OtherRefused,
	}
	ledgers, err := in.c.Ledger(r.Context())
	if err != nil {
		return page.Response{}, err
	}
	for _, ledger := range ledgers {
		if ledger.Failed > 0 {
			l.Kept = append(l.Kept, ledger)
		}
	}
	for i := range l.Failed {
		l.Failed[i].linkCalls(in.c.History(), in.c.Shapes())
	}
	linkRefused(in.c.History(), l.Refused)
	return page.Response{Template: "problems", Page: page.Page{Title: "Problems", Nav: "problems", Body: &l}}.OrPart(r, "list"), nil
}

// replayRuns returns the replays to show. Unsettled replays come first, followed by the newest.
func (in *Inspector) replayRuns() []engine.ReplayRun {
	runs := in.c.ReplayRuns()
	slices.SortStableFunc(runs, func(a, b engine.ReplayRun) int {
		switch {
		case a.Settled() == b.Settled():
			return 0
		case b.Settled():
			return -1
		}
		return 1
	})
	return runs[:min(len(runs), shownRuns)]
}

func causeCards(groups []stats.Group) []causeCard {
	shown := make([]causeCard, 0, min(len(groups), shownGroups))
	for _, g := range groups[:cap(shown)] {
		shown = append(shown, causeCard{Group: g})
	}
	return shown
}

// linkCalls adds the retained calls of a group of failures as examples.
func (c *causeCard) linkCalls(h *history.History, known *shapes.Shapes) {
	for _, call := range c.Newest {
		if i, ok := h.Item(history.RefOfCall(call.Source, call.ID)); ok && len(c.Examples) < shownExamples {
			c.Examples = append(c.Examples, exampleOf(h, &i))
			c.linkEvent(known, i.Call())
		}
	}
}

// linkEvent adds the event page of an example.
func (c *causeCard) linkEvent(known *shapes.Shapes, call *tracking.Call) {
	name, link := rows.EventOf(known, call)
	e := example{Href: link, Text: name, Type: call.Type}
	if link != "" && !slices.Contains(c.Events, e) {
		c.Events = append(c.Events, e)
	}
}

// linkRefused adds retained rejected calls and refused requests as examples.
func linkRefused(h *history.History, shown []causeCard) {
	byKey := map[stats.Key]*causeCard{}
	for i := range shown {
		byKey[shown[i].Key] = &shown[i]
	}
	left := searched
	var found []history.Item
	h.Scan(history.Newest, func(i *history.Item) bool {
		left--
		if i.Record == nil {
			found = append(found, i.Snapshot())
		}
		return left > 0
	})
	for i := range found {
		kind, p := stats.Rejected, found[i].Problem()
		if found[i].Refusal != nil {
			kind = stats.Refused
		}
		if c := byKey[stats.KeyOf(kind, p)]; c != nil && len(c.Examples) < shownExamples {
			c.Examples = append(c.Examples, exampleOf(h, &found[i]))
		}
	}
}

func exampleOf(h *history.History, i *history.Item) example {
	call := i.Call()
	e := example{callLink(h.RefOf(i)), cmp.Or(i.Title(), call.UserID, call.AnonymousID, "no user"), call.Type}
	if i.Refusal != nil {
		e.Type = "request"
	}
	return e
}
