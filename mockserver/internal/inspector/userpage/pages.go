package userpage

import "github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"

// Pages serves the pages about users.
type Pages struct{ c *engine.Collector }

// New returns the pages of a collector.
func New(c *engine.Collector) Pages { return Pages{c} }
