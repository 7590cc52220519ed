package ingest

import (
	"encoding/json"
	"net/http"

	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// NewHandler returns a handler with no calls counted.
func NewHandler(config Config) *Handler {
	return &Handler{config: config, rates: newRates()}
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e := FindEndpoint(r.URL.Path)
	if e.forBrowsers() {
		AllowOrigin(w, r)
	}
	asked := r.Method
	if asked == http.MethodHead {
		asked = http.MethodGet
	}
	switch {
	case e.Kind == NoEndpoint:
		h.respondUnread(w, r, refuse(http.StatusNotFound, tracking.CodeNotFound, "there is no %q here; batches go to /v1/batch", h.pathOf(r)))
	case asked == http.MethodOptions:
		w.Header().Set("Allow", e.method()+", OPTIONS")
		w.WriteHeader(http.StatusNoContent)
	case asked != e.method():
		w.Header().Set("Allow", e.method()+", OPTIONS")
		h.respondUnread(w, r, refuse(http.StatusMethodNotAllowed, tracking.CodeWrongMethod, "%q takes %s, not %s", h.pathOf(r), e.method(), r.Method))
	default:
		h.serveEndpoint(e, w, r)
	}
}

func (h *Handler) serveEndpoint(e Endpoint, w http.ResponseWriter, r *http.Request) {
	switch e.Kind {
	case BatchEndpoint:
		h.respond(w, r, h.take(r, ""))
	case CallEndpoint:
		h.respond(w, r, h.take(r, e.arg))
	case pixelEndpoint:
		h.servePixel(w, r, e.arg)
	case projectEndpoint:
		h.serveProject(w, r, e.arg)
	case metricsEndpoint:
		h.respond(w, r, h.countMetrics(r))
	case healthEndpoint:
		h.config.Health.ServeHTTP(w, r)
	case readyEndpoint:
		h.config.Ready.ServeHTTP(w, r)
	}
}

// countMetrics takes the metrics of a library. They belong to no source: the
// libraries send them without a write key.
func (h *Handler) countMetrics(r *http.Request) *requestError {
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
		return refuse(http.StatusBadRequest, tracking.CodeInvalidJSON, "metrics are sent as {\"series\":[{\"metric\":…,\"value\":…}]}: %v", err)
	}
	for _, s := range report.Series {
		h.Metrics.add(s.Metric, s.Value)
	}
	return nil
}
