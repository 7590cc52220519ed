package telemetry

import (
	"context"
	"net/url"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
)

// messaging names the collector's queue.
var messaging = semconv.MessagingSystemKey.String("analytics_collector")

// errorType returns the error attribute for a response without a 2xx status.
func errorType(status int) attribute.KeyValue {
	return semconv.ErrorTypeKey.String(strconv.Itoa(status))
}

func portOf(u *url.URL) int {
	if n, err := strconv.Atoi(u.Port()); err == nil {
		return n
	}
	if u.Scheme == "https" {
		return 443
	}
	return 80
}

// remote returns ctx with c as the parent of new spans. A nil c adds none.
func remote(ctx context.Context, c *event.Trace) context.Context {
	if c == nil {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": c.Parent, "tracestate": c.State})
}

// contextOf returns a span's context, with the trace state of parent, which may be nil.
func contextOf(span trace.Span, parent *event.Trace) *event.Trace {
	s := span.SpanContext()
	c := &event.Trace{Parent: "00-" + s.TraceID().String() + "-" + s.SpanID().String() + "-" + s.TraceFlags().String()}
	if parent != nil {
		c.State = parent.State
	}
	return c
}
