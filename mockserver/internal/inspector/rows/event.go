package rows

import (
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/page"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/shapes"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// EventLink returns the URL of an event page. more are pairs of names and values.
func EventLink(source, typ, name string, more ...string) string {
	return page.Link("/event", append([]string{"source", source, "type", typ, "name", name}, more...)...)
}

// EventOf returns the event, page or screen name of a call. It also returns the URL of the
// event page, or "" if the event has no statistics.
func EventOf(known *shapes.Shapes, c *tracking.Call) (name, link string) {
	name = event.NameOf(c)
	if name != "" && known.Has(c) {
		link = EventLink(c.Source, c.Type, name)
	}
	return name, link
}
