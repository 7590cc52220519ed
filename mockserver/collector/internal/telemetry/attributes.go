package telemetry

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/tracecontext"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// messaging is what the queue of a collector is called.
var messaging = semconv.MessagingSystemKey.String("analytics_collector")

// errorType is what a span says of an answer that is no success.
func errorType(status int) attribute.KeyValue {
	return semconv.ErrorTypeKey.String(strconv.Itoa(status))
}

// kindOf says in a word why a request had no whole answer; the words are those of attempts.
func kindOf(err error) string {
	var timeout net.Error
	var dns *net.DNSError
	var refused *webhook.PolicyError
	switch {
	case errors.Is(err, context.Canceled):
		return string(webhook.ReasonCanceled)
	case errors.As(err, &refused):
		return string(webhook.ReasonPolicy)
	case errors.As(err, &dns):
		return string(webhook.ReasonDNS)
	case errors.As(err, &timeout) && timeout.Timeout():
		return string(webhook.ReasonTimeout)
	}
	return string(webhook.ReasonConnection)
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

// remote returns ctx with the span of another process as the parent; with none where c is nil.
func remote(ctx context.Context, c *tracecontext.Context) context.Context {
	if c == nil {
		return ctx
	}
	var config trace.SpanContextConfig
	config.TraceID, _ = trace.TraceIDFromHex(c.TraceID()) // it was checked, and so is the next
	config.SpanID, _ = trace.SpanIDFromHex(c.SpanID())
	if c.Sampled() {
		config.TraceFlags = trace.FlagsSampled
	}
	config.Remote = true
	return trace.ContextWithSpanContext(ctx, trace.NewSpanContext(config))
}

// contextOf returns the context of a span, with the state of its parent, if it has one.
func contextOf(span trace.Span, parent *tracecontext.Context) *tracecontext.Context {
	s := span.SpanContext()
	c := &tracecontext.Context{Parent: "00-" + s.TraceID().String() + "-" + s.SpanID().String() + "-" + s.TraceFlags().String()}
	if parent != nil {
		c.State = parent.State
	}
	return c
}
