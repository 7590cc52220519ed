package eventpage

import (
	"cmp"
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
	shownSource = 4000 // bytes of a value that are read before it is shortened
)

// calls lists the retained calls with a property, newest first.
type calls struct {
	Path  string
	Type  string // selects values of this type; empty for all
	Value string // selects this JSON value; empty for all
	Found []call
	More  bool // more calls match
	Back  string
}

// A call is an entry of the list of matching calls.
type call struct {
	At     time.Time
	Href   string
	User   string
	Anon   bool
	About  string // URL of the user page
	Values []value
}

// callsWith returns the newest calls with a property. If typ or wanted is not empty, the
// property must have that type or value.
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
		one := call{At: c.ReceivedAt, Href: "/?call=" + h.RefOf(i), User: cmp.Or(c.UserID, c.AnonymousID), Anon: c.UserID == ""}
		one.About = rows.UserLink(one.User)
		for _, v := range found {
			one.Values = append(one.Values, value{Text: text.Cut(shownValue, string(v[:min(len(v), shownSource)])), Kind: page.KindOf(v)})
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
