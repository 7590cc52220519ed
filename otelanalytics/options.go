package otelanalytics

import (
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed-45eadc4a/analytics-go"
)

// scope is the name of the instrumentation scope.
const scope = "github.com/seed-45eadc4a/analytics-go/otelanalytics"

// An Option configures Configure and Observe.
type Option func(*options)

type options struct {
	meters     metric.MeterProvider
	tracers    trace.TracerProvider
	propagator propagation.TextMapPropagator
	attributes []attribute.KeyValue
}

// WithMeterProvider sets the meter provider. Defaults to otel.GetMeterProvider().
func WithMeterProvider(p metric.MeterProvider) Option { return func(o *options) { o.meters = p } }

// WithTracerProvider sets the tracer provider. Defaults to otel.GetTracerProvider().
func WithTracerProvider(p trace.TracerProvider) Option { return func(o *options) { o.tracers = p } }

// WithPropagator sets the propagator that adds the span context to request headers.
// Defaults to otel.GetTextMapPropagator(), which adds nothing unless the program sets one.
func WithPropagator(p propagation.TextMapPropagator) Option {
	return func(o *options) { o.propagator = p }
}

// WithAttributes adds attributes to all metrics and spans, for example the source's name
// in a program with several clients.
func WithAttributes(attributes ...attribute.KeyValue) Option {
	return func(o *options) { o.attributes = append(o.attributes, attributes...) }
}

func newOptions(list []Option) *options {
	o := &options{meters: otel.GetMeterProvider(), tracers: otel.GetTracerProvider(), propagator: otel.GetTextMapPropagator()}
	for _, option := range list {
		option(o)
	}
	return o
}

func (o *options) meter() metric.Meter {
	return o.meters.Meter(scope, metric.WithInstrumentationVersion(analytics.Version))
}

func (o *options) tracer() trace.Tracer {
	return o.tracers.Tracer(scope, trace.WithInstrumentationVersion(analytics.Version))
}
