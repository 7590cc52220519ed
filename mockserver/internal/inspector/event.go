package inspector

import (
	"cmp"
	"net/http"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/copyas"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/page"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/rows"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/shapes"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

// An eventPage shows one event.
type eventPage struct {
	shapes.Event
	CallsHref  string // URL of the list of the event's calls
	Odd        []anomalyLink
	Violations []violation
	Properties []property
	Word       string         // "property" or "trait"
	Calls      *matchingCalls // calls with the selected property, or nil
	Export     page.Tabs
}

// Sampled reports whether only a part of the calls was examined.
func (p *eventPage) Sampled() bool { return p.Event.Sampled < p.Event.Calls }

// An anomalyLink is an anomaly with a link.
type anomalyLink struct {
	Text, Href, Link string
}

// A violation is a kind of plan violation, with a link to a call.
type violation struct {
	shapes.Violation
	Ref string // ref of the newest call with the violation
}

// A property is a row of the table.
type property struct {
	shapes.Property
	Name   string // path relative to the parent property
	Level  int    // nesting level
	Href   string // URL of the calls with the property
	Types  []share
	Values []propertyValue
	Rest   uint64 // number of values that are not shown
	Odd    bool
}

// Percent returns the share of calls with the property. Width returns it as the width of a bar.
func (p property) Percent() string { return shapes.Percent(p.Calls, p.Property.Sampled) }
func (p property) Width() int      { return max(1, int(100*p.Share)) }

// A share is a type or a string format, with the number of values that have it.
type share struct {
	Name, Percent, Href string
	Count               uint64
	Unusual             bool
}

func unknownEvent() page.Response {
	return page.Problem(http.StatusNotFound, "Event not found", "No call of this event has arrived, or its statistics were deleted.")
}

func (in *Inspector) showEvent(r *http.Request) (page.Response, error) {
	q := r.URL.Query()
	e, ok := in.c.Shapes().Named(q.Get("source"), q.Get("type"), q.Get("name"))
	if !ok {
		return unknownEvent(), nil
	}
	shown := &eventPage{Event: e, Word: "property"}
	if e.Traits() {
		shown.Word = "trait"
	}
	shown.CallsHref = rows.By("source", e.Source, "type", e.Type, "event", e.Name).Link("/")
	odd := map[string]bool{}
	for _, o := range e.Anomalies {
		shown.Odd = append(shown.Odd, in.linkAnomaly(&e, o))
		odd[o.Path] = true
	}
	for _, v := range e.Violations {
		shown.Violations = append(shown.Violations, violation{v, refOf(&e, v.Call)})
	}
	for i := range e.Properties {
		shown.Properties = append(shown.Properties, propertyOf(&e, &e.Properties[i], odd))
	}
	if found := e.Property(q.Get("path")); found != nil {
		shown.Calls = in.callsWith(&e, found, q.Get("has"), q.Get("value"))
	}
	shown.Export = exportOf(&e)
	return page.Response{Template: "event", Page: page.Page{Title: cmp.Or(e.Name, page.Capitalize(e.Type)), Nav: "events", Body: shown}}.OrPart(r, "known"), nil
}

// linkAnomaly links an anomaly to matching calls or to the similar event.
func (in *Inspector) linkAnomaly(e *shapes.Event, o shapes.Anomaly) anomalyLink {
	shown := anomalyLink{Text: o.Text + "."}
	switch o.Kind {
	case shapes.SimilarEvents:
		if other, ok := in.c.Shapes().Event(o.Other); ok {
			shown.Href, shown.Link = eventHref(&other), "View other event"
		}
	case shapes.PropertyGone:
		shown.Href, shown.Link = matchingHref(e, o.Path, "", ""), "View last calls"
	default:
		shown.Href, shown.Link = matchingHref(e, o.Path, o.Type, o.Value), "Show matching calls"
	}
	return shown
}

// matchingHref returns the URL of the matching calls.
func matchingHref(e *shapes.Event, path, typ, value string) string {
	return eventHref(e, "path", path, "has", typ, "value", value) + "#with"
}

func propertyOf(e *shapes.Event, of *shapes.Property, odd map[string]bool) property {
	p := property{Property: *of, Name: of.Path, Level: min(of.Depth, 4), Href: matchingHref(e, of.Path, "", ""), Odd: odd[of.Path], Rest: of.OtherCount}
	p.Types = typesOf(e, of, odd[of.Path])
	for _, v := range of.Common {
		p.Values = append(p.Values, propertyValue{string(v.JSON), page.KindOf(v.JSON), matchingHref(e, of.Path, "", string(v.JSON)), v.Count})
	}
	for _, v := range of.Samples {
		p.Values = append(p.Values, propertyValue{string(v.JSON), page.KindOf(v.JSON), "", 0})
	}
	return p
}

// typesOf returns the types and string formats of a property.
func typesOf(e *shapes.Event, p *shapes.Property, odd bool) []share {
	var shares []share
	for _, t := range p.JSONTypes() {
		shares = append(shares, share{t.Name, shapes.Percent(t.Count, p.Values), matchingHref(e, p.Path, t.Name, ""), t.Count, odd && len(shares) > 0 && t.Name != "null"})
		for _, f := range t.Formats {
			name := f.Name
			if name == "number" {
				name = "numeric"
			}
			shares = append(shares, share{name, shapes.Percent(f.Count, t.Count), "", f.Count, false})
		}
	}
	return shares
}

// exportOf returns the snippets to copy.
func exportOf(e *shapes.Event) page.Tabs {
	return page.Tabs{ID: "export", Label: "Export", Snippets: []page.Snippet{
		{ID: "schema", Name: "JSON Schema", Code: e.Schema().Text()},
		{ID: "go", Name: "Go test", Code: strings.TrimSpace(e.Like())},
		{ID: "plan", Name: "Tracking plan", Code: "collector plan infer --collector --source " + copyas.Shell(e.Source) + " > plan.yaml"},
	}}
}

// Limits of the list of matching calls.
const (
	maxMatching = 20
	shownValue  = 120  // characters of a value
	shownSource = 4000 // bytes of a value that are read before it is shortened
)

// matchingCalls lists the retained calls with a property, newest first.
type matchingCalls struct {
	Path  string
	Type  string // selects values of this type; empty for all
	Value string // selects this JSON value; empty for all
	Found []matchingCall
	More  bool // more calls match
	Back  string
}

// A matchingCall is an entry of the list of matching calls.
type matchingCall struct {
	At     time.Time
	Href   string
	User   string
	Anon   bool
	About  string // URL of the user page
	Values []propertyValue
}

// callsWith returns the newest calls with a property. If typ or wanted is not empty, the
// property must have that type or value.
func (in *Inspector) callsWith(e *shapes.Event, of *shapes.Property, typ, wanted string) *matchingCalls {
	shown := &matchingCalls{Path: of.Path, Type: typ, Value: wanted, Back: eventHref(e)}
	h := in.c.History()
	h.Scan(history.Newest, func(i *history.Item) bool {
		if i.Record == nil {
			return true
		}
		c := &i.Record.Call
		found := e.Find(c, of, typ, wanted)
		switch {
		case len(found) == 0:
			return true
		case len(shown.Found) == maxMatching:
			shown.More = true
			return false
		}
		one := matchingCall{At: c.ReceivedAt, Href: callLink(h.RefOf(i)), User: cmp.Or(c.UserID, c.AnonymousID), Anon: c.UserID == ""}
		one.About = rows.UserLink(one.User)
		for _, v := range found {
			one.Values = append(one.Values, propertyValue{Text: text.Cut(shownValue, string(v[:min(len(v), shownSource)])), Kind: page.KindOf(v)})
		}
		shown.Found = append(shown.Found, one)
		return true
	})
	return shown
}

// refOf returns the ref of a call, or "" if messageID is empty.
func refOf(e *shapes.Event, messageID string) string {
	if messageID == "" {
		return ""
	}
	return history.RefOfCall(e.Source, messageID)
}

// A propertyValue is a property value with the number of its calls.
type propertyValue struct {
	Text, Kind, Href string
	Count            uint64
}

// eventHref returns the URL of the event page.
func eventHref(e *shapes.Event, more ...string) string {
	return rows.EventLink(e.Source, e.Type, e.Name, more...)
}

func (in *Inspector) deleteEvent(r *http.Request) (page.Response, error) {
	if !in.c.Shapes().Delete(r.PostForm.Get("id")) {
		return unknownEvent(), nil
	}
	return page.SendTo("/events", "Event statistics deleted.")
}
