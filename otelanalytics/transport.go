package otelanalytics

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/semconv/v1.43.0/httpconv"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed-45eadc4a/analytics-go"
)

// transport creates a span for each request and records its duration.
type transport struct {
	base       http.RoundTripper
	tracer     trace.Tracer
	propagator propagation.TextMapPropagator
	durations  metric.Float64Histogram
	attributes []attribute.KeyValue
}

// buckets contains the boundaries, in seconds, that the semantic conventions recommend.
var buckets = []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}

// newDurations creates the histogram of request durations.
func newDurations(m metric.Meter) (metric.Float64Histogram, error) {
	h, err := httpconv.NewClientRequestDuration(m, metric.WithExplicitBucketBoundaries(buckets...))
	return h.Inst(), err
}

// RoundTrip implements http.RoundTripper. It neither traces nor measures the request for the
// source's settings, because the URL contains the write key.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPost {
		return t.base.RoundTrip(r)
	}
	common := append(requestAttributes(r.URL), t.attributes...)
	values := analytics.RequestValues(r.Context())
	ctx, span := t.tracer.Start(r.Context(), r.Method+" "+r.URL.Path,
		trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(common...),
		trace.WithAttributes(spanAttributes(r, len(values))...),
		trace.WithLinks(links(values)...))
	defer span.End()
	r = r.Clone(ctx)
	t.propagator.Inject(ctx, propagation.HeaderCarrier(r.Header))
	started := time.Now()
	res, err := t.base.RoundTrip(r)
	took := time.Since(started)
	outcome := outcomeAttributes(res, err)
	span.SetAttributes(outcome...)
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	} else if failed(res) {
		span.SetStatus(codes.Error, "")
	}
	t.durations.Record(ctx, took.Seconds(), metric.WithAttributeSet(attribute.NewSet(append(common, outcome...)...)))
	return res, err
}

// requestAttributes returns the attributes that metrics and spans have in common.
func requestAttributes(u *url.URL) []attribute.KeyValue {
	attributes := []attribute.KeyValue{
		semconv.HTTPRequestMethodPost,
		semconv.ServerAddress(u.Hostname()),
		semconv.URLScheme(u.Scheme),
	}
	port, err := strconv.Atoi(u.Port())
	switch {
	case err == nil:
	case u.Scheme == "https":
		port = 443
	default:
		port = 80
	}
	return append(attributes, semconv.ServerPort(port))
}

// spanAttributes returns the attributes that only spans have. url.full omits the user and the
// query of the URL, because they may be secret.
func spanAttributes(r *http.Request, calls int) []attribute.KeyValue {
	full := url.URL{Scheme: r.URL.Scheme, Host: r.URL.Host, Path: r.URL.Path, RawPath: r.URL.RawPath}
	attributes := []attribute.KeyValue{semconv.URLFull(full.String())}
	if r.ContentLength > 0 {
		attributes = append(attributes, semconv.HTTPRequestBodySize(int(r.ContentLength)))
	}
	if calls > 0 {
		attributes = append(attributes, semconv.MessagingBatchMessageCount(calls))
	}
	if n, err := strconv.Atoi(r.Header.Get("X-Retry-Count")); err == nil && n > 0 {
		attributes = append(attributes, semconv.HTTPRequestResendCount(n))
	}
	return attributes
}

// outcomeAttributes returns the attributes for a response or an error. A status other than 2xx
// counts as an error, because the client retries or drops the batch.
func outcomeAttributes(res *http.Response, err error) []attribute.KeyValue {
	if err != nil {
		return []attribute.KeyValue{semconv.ErrorType(err)}
	}
	attributes := []attribute.KeyValue{semconv.HTTPResponseStatusCode(res.StatusCode)}
	if failed(res) {
		attributes = append(attributes, semconv.ErrorTypeKey.String(strconv.Itoa(res.StatusCode)))
	}
	return attributes
}

func failed(res *http.Response) bool { return res.StatusCode < 200 || res.StatusCode > 299 }
