package rows

import (
	"net/url"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/shapes"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// EventLink returns the URL of an event page. more are pairs of names and values.
func EventLink(source, typ, name string, more ...string) string {
	q := url.Values{"source": {source}, "type": {typ}}
	if name != "" {
		q.Set("name", name)
	}
	for i := 0; i+1 < len(more); i += 2 {
		if more[i+1] != "" {
			q.Set(more[i], more[i+1])
		}
	}
	return "/event?" + q.Encode()
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
