package ingest

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/logthrottle"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// An appender is the journal as far as taking calls needs it. See Journal.Append.
type appender interface {
	Append(ctx context.Context, b event.Batch) error
}

// A Config is what the tracking API needs. All of it must be set.
type Config struct {
	Journal  appender
	Observer event.Observer
	Dedup    *Dedup
	Log      *slog.Logger
	Limits   tracking.Limits
	Strict   bool // a request with a wrong call is refused as a whole

	Sources      func() *SourceTable          // those that apply
	Integrations func(source string) []string // the names of those that get the calls of a source from the server
	IsHTTPS      func(*http.Request) bool     // whether the sender asked by HTTPS, perhaps of a proxy before us
	Health       http.Handler                 // answers that the process lives
	Ready        http.Handler                 // answers whether calls can be taken
}

// A Handler serves the tracking API: it takes calls, and answers once they are
// stored.
type Handler struct {
	config   Config
	rates    *rates
	Metrics  clientMetrics
	refusing logthrottle.Throttle // what is logged of batches that could not be stored
}
