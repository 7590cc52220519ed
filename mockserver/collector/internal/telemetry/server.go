package telemetry

import (
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/ingest"
)

// Handler wraps the tracking API's handler with a span for each request with calls. It replaces
// the sender's context in the request headers with the context of the span.
func (t *Telemetry) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tracer := t.tracer()
		if tracer == nil || r.Method != http.MethodPost || !bringsCalls(r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		sender := event.TraceOf(r.Header)
		route := "/" + strings.Trim(r.URL.Path, "/") // one of the known endpoints
		_, span := tracer.Start(remote(r.Context(), sender), "POST "+route, trace.WithSpanKind(trace.SpanKindServer),
			trace.WithAttributes(semconv.HTTPRequestMethodPost, semconv.HTTPRoute(route), semconv.URLScheme(scheme(r))))
		if !span.IsRecording() {
			next.ServeHTTP(w, r) // webhooks receive the sender's context unchanged
			return
		}
		defer span.End()
		own := contextOf(span, sender)
		r.Header[event.TraceParentHeader] = []string{own.Parent}
		response := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(response, r)
		span.SetAttributes(semconv.HTTPResponseStatusCode(response.status))
		if response.status >= http.StatusInternalServerError {
			span.SetAttributes(errorType(response.status))
			span.SetStatus(codes.Error, "")
		}
	})
}

// bringsCalls reports whether requests to a path contain calls.
func bringsCalls(path string) bool {
	switch ingest.FindEndpoint(path).Kind {
	case ingest.BatchEndpoint, ingest.CallEndpoint:
		return true
	}
	return false
}

func scheme(r *http.Request) string {
	if r.TLS != nil {
		return "https"
	}
	return "http"
}

// A statusWriter records the response status.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap supports http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
