package ingest

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/netip"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// An appender is the part of journal.Journal that ingest uses.
type appender interface {
	Append(ctx context.Context, b event.Batch) error
}

// A Config configures a Handler. Only Plans and HTTPConfig are optional.
type Config struct {
	Journal  appender
	Observer event.Observer
	Dedup    *Dedup
	Log      *slog.Logger
	Limits   tracking.Limits
	Strict   bool   // refuse a whole request if one of its calls is invalid
	RelayID  string // value of webhook.RelayHeader in requests of this collector, which are refused

	Plans      Judge           // nil without tracking plans
	HTTPConfig json.RawMessage // retry settings for the libraries' settings; may be nil

	Sources      func() *SourceTable            // current sources
	Integrations func(source string) []string   // destinations of a source
	IsHTTPS      func(*http.Request) bool       // whether the sender used HTTPS, possibly for its connection to a proxy
	ClientOf     func(*http.Request) netip.Addr // address of the sender
	Health       http.Handler                   // liveness check
	Ready        http.Handler                   // readiness check
}

// DefaultLimits returns l with the service's limits in place of zero values.
func DefaultLimits(l tracking.Limits) tracking.Limits {
	l.BodyBytes = cmp.Or(max(l.BodyBytes, 0), 512_000)
	l.CallBytes = cmp.Or(max(l.CallBytes, 0), 32_768)
	l.BatchCalls = cmp.Or(max(l.BatchCalls, 0), 2_500)
	l.MessageIDChars = cmp.Or(max(l.MessageIDChars, 0), 100)
	return l
}

// A Handler serves the tracking API.
type Handler struct {
	config   Config
	rates    *rates
	refusing pause.Throttle // limits log lines about failed appends
}

// NewHandler returns a Handler.
func NewHandler(config Config) *Handler {
	return &Handler{config: config, rates: newRates()}
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e := FindEndpoint(r.URL.Path)
	if e.forBrowsers() {
		AllowOrigin(w, r)
	}
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	switch {
	case e.Kind == NoEndpoint:
		h.respondUnread(w, r, refuse(http.StatusNotFound, tracking.CodeNotFound, "there is no endpoint %q; send batches to /v1/batch", h.pathOf(r)))
	case method == http.MethodOptions:
		w.Header().Set("Allow", e.method()+", OPTIONS")
		w.WriteHeader(http.StatusNoContent)
	case method != e.method():
		w.Header().Set("Allow", e.method()+", OPTIONS")
		h.respondUnread(w, r, refuse(http.StatusMethodNotAllowed, tracking.CodeWrongMethod, "%q accepts %s, not %s", h.pathOf(r), e.method(), r.Method))
	default:
		h.serveEndpoint(e, w, r)
	}
}

func (h *Handler) serveEndpoint(e Endpoint, w http.ResponseWriter, r *http.Request) {
	switch e.Kind {
	case BatchEndpoint, CallEndpoint:
		h.respond(w, r, h.receive(r, e.arg))
	case pixelEndpoint:
		h.servePixel(w, r, e.arg)
	case projectEndpoint:
		h.serveProject(w, r, e.arg)
	case metricsEndpoint:
		h.respond(w, r, h.checkMetrics(r))
	case healthEndpoint:
		h.config.Health.ServeHTTP(w, r)
	case readyEndpoint:
		h.config.Ready.ServeHTTP(w, r)
	}
}

// checkMetrics checks the metrics that the browser library reports about itself, and discards them.
// Libraries send them without a write key.
func (h *Handler) checkMetrics(r *http.Request) *requestError {
	body := newBody()
	defer body.release()
	if refused := body.readRequest(r, h.config.Limits.BodyBytes); refused != nil {
		return refused
	}
	var report struct {
		Series []struct {
			Metric string  `json:"metric"`
			Value  float64 `json:"value"`
		} `json:"series"`
	}
	if err := json.Unmarshal(body.Bytes(), &report); err != nil {
		return refuse(http.StatusBadRequest, tracking.CodeInvalidJSON, "the metrics must have the format {\"series\":[{\"metric\":…,\"value\":…}]}: %v", err)
	}
	return nil
}
