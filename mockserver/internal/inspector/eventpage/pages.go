package eventpage

import (
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/rows"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/shapes"
)

// pages serves the pages about events.
type pages struct{ c *engine.Collector }

// A value is a property value with the number of its calls.
type value struct {
	Text, Kind, Href string
	Count            uint64
}

// href returns the URL of the event page.
func href(e *shapes.Event, more ...string) string {
	return rows.EventLink(e.Source, e.Type, e.Name, more...)
}
