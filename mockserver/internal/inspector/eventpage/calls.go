package eventpage

import (
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/page"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/rows"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/shapes"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

// Bounds of the list of calls that have a property so.
const (
	maxCalls    = 20
	shownValue  = 120  // characters of a value
	shownSource = 4000 // bytes of a value of which these are taken
)

// calls are those remembered that have a property so, newest first.
type calls struct {
	Path  string
	Type  string // only values of this type; empty: any
	Value string // only this value, as JSON; empty: any
	Found []call
	More  bool // there are more
	Back  string
}

// A call has a property so.
type call struct {
	At     time.Time
	Href   string
	User   string
	Anon   bool
	About  string // the user's page
	Values []value
}

// callsWith looks for the newest calls that have a property with values of a type, or
// with one value.
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

// refOf returns the reference of a call of an event; empty where its messageId is not known.
func refOf(e *shapes.Event, messageID string) string {
	if messageID == "" {
		return ""
	}
	return history.RefOfCall(e.Source, messageID)
}
