package otelanalytics

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/trace"

	"github.com/seed-45eadc4a/analytics-go"
)

// Configure returns cfg with what reports requests: its WrapTransport, which wraps what
// cfg.WrapTransport returns, if that is set, and its Value.
//
// If cfg.Value is set it stays, and decides which links there are: where it returns a
// trace.SpanContext, a trace.Span, or a context. Otherwise Value is SpanContext, and
// Result.Value of the callback is what that returns.
//
// The error is that of the meter provider.
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
			return nil // which the client reports
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

// SpanContext is an analytics.Config.Value: the trace.SpanContext of the span in ctx, or
// nil if there is none or it is not sampled.
func SpanContext(ctx context.Context) interface{} {
	if s := trace.SpanContextFromContext(ctx); s.IsSampled() && s.IsValid() {
		return s
	}
	return nil
}

// links returns a link to each of the sampled spans that values have, once.
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

// spanContextOf returns the span of a value that a call carries.
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
