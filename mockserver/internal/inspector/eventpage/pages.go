package eventpage

import (
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/rows"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/shapes"
)

// pages show what a collector knows of events.
type pages struct{ c *engine.Collector }

// A value is one that a property had.
type value struct {
	Text, Kind, Href string
	Count            uint64
}

// href returns the address of the page of an event.
func href(e *shapes.Event, more ...string) string {
	return rows.EventLink(e.Source, e.Type, e.Name, more...)
}
