package telemetry

import (
	"context"
	"io"
	"net/http"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/delivery"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/sender"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// Transport returns a RoundTripper that adds a span to each delivery request, if the call's
// request was traced.
func (t *Telemetry) Transport(base http.RoundTripper) http.RoundTripper { return &transport{base, t} }

type transport struct {
	base      http.RoundTripper
	telemetry *Telemetry
}

// RoundTrip implements http.RoundTripper. It may replace the traceparent header of r, because no
// other request shares the header map. Recorded attempts therefore show the header that was sent.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	tracer := t.telemetry.tracer()
	info, ok := delivery.FromContext(r.Context())
	if tracer == nil || !ok || info.Trace == nil || !info.Trace.Sampled() {
		return t.base.RoundTrip(r)
	}
	from := remote(context.Background(), info.Trace)
	_, span := tracer.Start(from, "deliver "+info.Destination, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithLinks(trace.LinkFromContext(from)), trace.WithAttributes(requestAttributes(r, info)...))
	if !span.IsRecording() {
		span.End()
		return t.base.RoundTrip(r)
	}
	if len(r.Header[event.TraceParentHeader]) > 0 {
		r.Header[event.TraceParentHeader] = []string{contextOf(span, info.Trace).Parent}
	}
	res, err := t.base.RoundTrip(r)
	if err != nil {
		endFailed(span, err)
		return nil, err
	}
	span.SetAttributes(semconv.HTTPResponseStatusCode(res.StatusCode))
	if res.StatusCode < 200 || res.StatusCode > 299 {
		span.SetAttributes(errorType(res.StatusCode))
		span.SetStatus(codes.Error, "")
	}
	res.Body = &tracedBody{ReadCloser: res.Body, span: span}
	return res, nil
}

// requestAttributes describes a request. It omits the path and the query of the URL, because they
// may be secret.
func requestAttributes(r *http.Request, info delivery.Info) []attribute.KeyValue {
	all := []attribute.KeyValue{
		semconv.HTTPRequestMethodPost, semconv.ServerAddress(r.URL.Hostname()), semconv.ServerPort(portOf(r.URL)), semconv.URLScheme(r.URL.Scheme),
		messaging, semconv.MessagingOperationName("deliver"), semconv.MessagingOperationTypeProcess,
		semconv.MessagingDestinationName(info.Source), semconv.MessagingDestinationSubscriptionName(info.Destination),
		semconv.MessagingMessageID(r.Header.Get(webhook.MessageIDHeader)), semconv.MessagingMessageBodySize(int(r.ContentLength)),
	}
	if n, err := strconv.Atoi(r.Header.Get(webhook.AttemptHeader)); err == nil && n > 1 {
		all = append(all, semconv.HTTPRequestResendCount(n-1))
	}
	return all
}

// endFailed ends the span of a request that got no complete response.
func endFailed(span trace.Span, err error) {
	span.SetAttributes(semconv.ErrorTypeKey.String(string(sender.ReasonOf(err))))
	span.SetStatus(codes.Error, "")
	span.End()
}

// A tracedBody is a response body that ends its request's span when it is closed.
type tracedBody struct {
	io.ReadCloser
	span trace.Span
	err  error // error of the last Read, except io.EOF
}

// Read implements io.Reader.
func (b *tracedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		b.err = err
	}
	return n, err
}

// Close implements io.Closer.
func (b *tracedBody) Close() error {
	if b.err != nil {
		endFailed(b.span, b.err)
	} else {
		b.span.End()
	}
	return b.ReadCloser.Close()
}
