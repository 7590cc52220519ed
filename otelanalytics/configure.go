package otelanalytics

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/trace"

	"github.com/seed-45eadc4a/analytics-go"
)

// Configure returns a copy of cfg that measures and traces requests. It sets WrapTransport to a
// function that wraps the result of cfg.WrapTransport, and Value to a function that links
// spans.
//
// Configure does not replace cfg.Value. Requests are linked to spans if that function
// returns a trace.SpanContext, a trace.Span or a context. The default Value is
// SpanContext; Result.Value then contains its result.
//
// The error comes from the meter provider.
func Configure(cfg analytics.Config, opts ...Option) (analytics.Config, error) {
	o := newOptions(opts)
	durations, err := newDurations(o.meter())
	if err != nil {
		return cfg, err
	}
	wrap := cfg.WrapTransport
	cfg.WrapTransport = func(base http.RoundTripper) http.RoundTripper {
		if wrap != nil {
			base = wrap(base)
		}
		if base == nil {
			return nil // NewWithConfig reports that the transport is nil
		}
		return &transport{
			base: base, tracer: o.tracer(), propagator: o.propagator,
			durations: durations, attributes: o.attributes,
		}
	}
	if cfg.Value == nil {
		cfg.Value = SpanContext
	}
	return cfg, nil
}

// SpanContext is a function for analytics.Config.Value. It returns the trace.SpanContext
// of the span in ctx, or nil if ctx has no sampled span.
func SpanContext(ctx context.Context) interface{} {
	if s := trace.SpanContextFromContext(ctx); s.IsSampled() && s.IsValid() {
		return s
	}
	return nil
}

// links returns one link for each sampled span in values.
func links(values []interface{}) (list []trace.Link) {
	type id struct {
		trace trace.TraceID
		span  trace.SpanID
	}
	seen := map[id]bool{}
	for _, value := range values {
		s := spanContextOf(value)
		key := id{s.TraceID(), s.SpanID()}
		if !s.IsSampled() || !s.IsValid() || seen[key] {
			continue
		}
		seen[key] = true
		list = append(list, trace.Link{SpanContext: s})
	}
	return list
}

// spanContextOf returns the span context in the value of a call, if there is one.
func spanContextOf(value interface{}) trace.SpanContext {
	switch v := value.(type) {
	case trace.SpanContext:
		return v
	case trace.Span:
		return v.SpanContext()
	case context.Context:
		return trace.SpanContextFromContext(v)
	}
	return trace.SpanContext{}
}
