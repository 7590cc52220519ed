package eventpage

import (
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/page"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/rows"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/shapes"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

// Limits of the list of matching calls.
const (
	maxCalls    = 20
	shownValue  = 120  // characters of a value
	shownSource = 4000 // bytes of a value that are considered
)

// calls are the retained calls with a property, newest first.
type calls struct {
	Path  string
	Type  string // only values of this type; empty for any
	Value string // only this JSON value; empty for any
	Found []call
	More  bool // there are more calls
	Back  string
}

// A call is a call with the property.
type call struct {
	At     time.Time
	Href   string
	User   string
	Anon   bool
	About  string // the user page
	Values []value
}

// callsWith returns the newest calls with a property, optionally of a type or with a value.
func (p *pages) callsWith(e *shapes.Event, of *shapes.Property, typ, wanted string) *calls {
	shown := &calls{Path: of.Path, Type: typ, Value: wanted, Back: href(e)}
	h := p.c.History()
	end, _ := h.End()
	h.Scan(end.Order+1, func(i *history.Item) bool {
		if i.Record == nil {
			return true
		}
		c := &i.Record.Call
		found := e.Find(c, of, typ, wanted)
		switch {
		case len(found) == 0:
			return true
		case len(shown.Found) == maxCalls:
			shown.More = true
			return false
		}
		one := call{At: c.ReceivedAt, Href: "/?call=" + h.RefOf(i), User: c.UserID}
		if one.Anon = c.UserID == ""; one.Anon {
			one.User = c.AnonymousID
		}
		one.About = rows.UserLink(one.User)
		for _, v := range found {
			one.Values = append(one.Values, value{Text: text.Cut(shownValue, string(v[:min(len(v), shownSource)])), Kind: page.KindOf(v)})
		}
		shown.Found = append(shown.Found, one)
		return true
	})
	return shown
}

// refOf returns the ref of a call, or "" without a messageId.
func refOf(e *shapes.Event, messageID string) string {
	if messageID == "" {
		return ""
	}
	return history.RefOfCall(e.Source, messageID)
}
