package inspector

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/page"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/rows"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/jsondiff"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/timeline"
)

// shownChoices limits the calls to compare with.
const shownChoices = 50

func compareLink(first, second string) string {
	return page.Link("/compare", "call", first, "call", second)
}

// A comparePage compares two calls, or offers calls to compare with.
type comparePage struct {
	First, Second *rows.Row       // nil if not selected
	Problem       string          // why the calls cannot be compared
	Choices       []compareChoice // only for a single call
	Differing     []jsondiff.Line
	Equal         []jsondiff.Line
	Always        []jsondiff.Line // differ between any two calls
	Incomplete    bool
	Total         int  // number of differing paths, without Always
	Others        bool // whether the calls have different events
}

// A compareChoice is a call to compare with.
type compareChoice struct {
	rows.Row
	Link string
}

// alwaysDiffer are the IDs and timestamps, which differ between any two calls.
var alwaysDiffer = []string{"messageId", "timestamp", "originalTimestamp", "sentAt", "receivedAt"}

// showComparison serves the comparison of two calls.
func (in *Inspector) showComparison(r *http.Request) (page.Response, error) {
	refs := r.URL.Query()["call"]
	if len(refs) > 2 {
		return page.Problem(http.StatusBadRequest, "Too many calls", "Go back and select two calls."), nil
	}
	destinations := in.c.Attached()
	var items []history.Item
	var calls []*rows.Row
	for _, ref := range refs {
		i, ok := in.c.History().Item(ref)
		if !ok {
			return page.Problem(http.StatusNotFound, "Call expired", "One of the calls has expired."), nil
		}
		call := rows.New(in.c.History(), &i, rows.Filter{}, destinations)
		call.At = timeline.Happened(&i)
		items, calls = append(items, i), append(calls, &call)
	}
	var c comparePage
	switch len(calls) {
	case 0:
		c.Problem = "Select two calls on a user page, or one on the Calls page."
	case 1:
		c.First, c.Choices = calls[0], in.choicesFor(&items[0], destinations)
	default:
		c.First, c.Second = calls[0], calls[1]
		c.compare(items[0].Call().Body, items[1].Call().Body)
	}
	return page.Response{Template: "compare", Page: page.Page{Title: "Compare calls", Nav: "calls", Body: c}}, nil
}

// compare sets the differences of the two bodies.
func (c *comparePage) compare(first, second []byte) {
	d, err := jsondiff.ComparePaths(first, second)
	if err != nil {
		c.Problem = "One of the calls is not valid JSON."
		return
	}
	c.Incomplete, c.Total = d.Incomplete, d.Differing
	c.Others = c.First.Type != c.Second.Type || c.First.Title != c.Second.Title
	for _, l := range d.Lines {
		switch {
		case l.Kind == jsondiff.Same:
			c.Equal = append(c.Equal, l)
		case slices.Contains(alwaysDiffer, l.Path):
			c.Always = append(c.Always, l)
			c.Total--
		default:
			c.Differing = append(c.Differing, l)
		}
	}
}

// choicesFor returns the newest calls of the same event. Calls of the same user come first.
func (in *Inspector) choicesFor(i *history.Item, destinations []engine.AttachedDestination) []compareChoice {
	h := in.c.History()
	c, title, id := i.Call(), history.TitleOf(i.Call()), idOf(i)
	var ours, others []history.Item
	h.Scan(history.Newest, func(other *history.Item) bool {
		o := other.Call()
		if other.Order == i.Order || other.Refusal != nil || o.Type != c.Type || history.TitleOf(o) != title && c.Type != "alias" {
			return true
		}
		if id != "" && idOf(other) == id {
			ours = append(ours, other.Snapshot())
		} else if len(others) < shownChoices {
			others = append(others, other.Snapshot())
		}
		return len(ours) < shownChoices
	})
	all := append(ours, others...)
	all = all[:min(len(all), shownChoices)]
	choices := make([]compareChoice, 0, len(all))
	for n := range all {
		row := rows.New(h, &all[n], rows.Filter{}, destinations)
		row.At = timeline.Happened(&all[n])
		first, second := row.Ref, h.RefOf(i) // the older call comes first
		if all[n].Order > i.Order {
			first, second = second, first
		}
		choices = append(choices, compareChoice{row, compareLink(first, second)})
	}
	return choices
}

// idOf returns the userId of a call, or its anonymousId.
func idOf(i *history.Item) string { return cmp.Or(i.Call().UserID, i.Call().AnonymousID) }
