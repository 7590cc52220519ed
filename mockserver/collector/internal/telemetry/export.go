package telemetry

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

const (
	// exportTimeout bounds an export with its retries, which begin after retryFirst and
	// come every retryMost at last. What is given up is counted, and said.
	exportTimeout = 10 * time.Second
	retryFirst    = 500 * time.Millisecond
	retryMost     = 4 * time.Second
	// queuedSpans is how many wait at most: some megabytes.
	queuedSpans = 8192
	// maxText bounds the texts of spans: senders choose some.
	maxText = 256
)

// disabled reports whether the environment says that nothing is to be sent.
func disabled() bool { return strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") }

// describe says whose traces and metrics they are.
func describe(ctx context.Context, version string) (*resource.Resource, error) {
	host, _ := os.Hostname()
	return resource.New(ctx,
		resource.WithAttributes(semconv.ServiceName("collector"), semconv.ServiceVersion(version), semconv.ServiceInstanceID(host)),
		resource.WithTelemetrySDK(), resource.WithHost(), resource.WithFromEnv())
}

// protocol returns GRPC or HTTP.
func (c *Config) protocol(signal string) (string, error) {
	name := "OTEL_EXPORTER_OTLP_PROTOCOL"
	if own := "OTEL_EXPORTER_OTLP_" + signal + "_PROTOCOL"; os.Getenv(own) != "" {
		name = own
	}
	switch p := cmp.Or(c.Protocol, os.Getenv(name)); p {
	case "", HTTP, "http/protobuf":
		return HTTP, nil
	case GRPC:
		return GRPC, nil
	default:
		return "", fmt.Errorf(`the protocol is %q, as %s says: use grpc or http/protobuf`, p, name)
	}
}

// url returns where a signal is sent to; empty where the environment says it.
func (c *Config) url(protocol, path string) string {
	if c.Endpoint == "" {
		return ""
	}
	url := c.Endpoint
	switch {
	case strings.Contains(url, "://"):
	case c.Insecure:
		url = "http://" + url
	default:
		url = "https://" + url
	}
	if protocol == HTTP {
		url = strings.TrimSuffix(url, "/") + path
	}
	return url
}

// options returns those of one of the four exporters, which have types of their own. What is
// not set is left to the environment.
func options[O any](c *Config, url string, endpoint func(string) O, headers func(map[string]string) O, insecure func() O) (all []O) {
	if url != "" {
		all = append(all, endpoint(url))
	} else if c.Insecure {
		all = append(all, insecure())
	}
	if len(c.Headers) > 0 {
		all = append(all, headers(c.Headers))
	}
	return all
}

func (t *Telemetry) newTraces(ctx context.Context, c *Config, about *resource.Resource) (*sdktrace.TracerProvider, error) {
	protocol, err := c.protocol("TRACES")
	if err != nil {
		return nil, err
	}
	var exporter sdktrace.SpanExporter
	if url := c.url(protocol, "/v1/traces"); protocol == GRPC {
		exporter, err = otlptracegrpc.New(ctx, append(
			options(c, url, otlptracegrpc.WithEndpointURL, otlptracegrpc.WithHeaders, otlptracegrpc.WithInsecure),
			otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{Enabled: true, InitialInterval: retryFirst, MaxInterval: retryMost, MaxElapsedTime: exportTimeout}))...)
	} else {
		exporter, err = otlptracehttp.New(ctx, append(
			options(c, url, otlptracehttp.WithEndpointURL, otlptracehttp.WithHeaders, otlptracehttp.WithInsecure),
			otlptracehttp.WithCompression(otlptracehttp.GzipCompression),
			otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: retryFirst, MaxInterval: retryMost, MaxElapsedTime: exportTimeout}))...)
	}
	if err != nil {
		return nil, err
	}
	limits := sdktrace.NewSpanLimits()
	if limits.AttributeValueLengthLimit < 0 {
		limits.AttributeValueLengthLimit = maxText
	}
	most := positive(os.Getenv("OTEL_BSP_MAX_QUEUE_SIZE"), queuedSpans)
	provide := []sdktrace.TracerProviderOption{
		sdktrace.WithResource(about), sdktrace.WithRawSpanLimits(limits), sdktrace.WithSpanProcessor(newBounded(exporter, most, t.newResult("traces"))),
	}
	if sampler := c.sampler(); sampler != nil {
		provide = append(provide, sdktrace.WithSampler(sampler))
	}
	return sdktrace.NewTracerProvider(provide...), nil
}

// sampler returns nil where the environment is to say which traces are recorded.
func (c *Config) sampler() sdktrace.Sampler {
	switch {
	case c.Ratio != nil:
		return sdktrace.ParentBased(sdktrace.TraceIDRatioBased(*c.Ratio))
	case os.Getenv("OTEL_TRACES_SAMPLER") != "":
		return nil
	}
	return sdktrace.ParentBased(sdktrace.AlwaysSample())
}

// positive reads a number of the environment.
func positive(text string, otherwise int) int {
	if n, err := strconv.Atoi(text); err == nil && n > 0 {
		return n
	}
	return otherwise
}

func (t *Telemetry) newMetrics(ctx context.Context, c *Config, about *resource.Resource) (*metric.MeterProvider, error) {
	protocol, err := c.protocol("METRICS")
	if err != nil {
		return nil, err
	}
	var exporter metric.Exporter
	if url := c.url(protocol, "/v1/metrics"); protocol == GRPC {
		exporter, err = otlpmetricgrpc.New(ctx, append(
			options(c, url, otlpmetricgrpc.WithEndpointURL, otlpmetricgrpc.WithHeaders, otlpmetricgrpc.WithInsecure),
			otlpmetricgrpc.WithRetry(otlpmetricgrpc.RetryConfig{Enabled: true, InitialInterval: retryFirst, MaxInterval: retryMost, MaxElapsedTime: exportTimeout}))...)
	} else {
		exporter, err = otlpmetrichttp.New(ctx, append(
			options(c, url, otlpmetrichttp.WithEndpointURL, otlpmetrichttp.WithHeaders, otlpmetrichttp.WithInsecure),
			otlpmetrichttp.WithCompression(otlpmetrichttp.GzipCompression),
			otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig{Enabled: true, InitialInterval: retryFirst, MaxInterval: retryMost, MaxElapsedTime: exportTimeout}))...)
	}
	if err != nil {
		return nil, err
	}
	read := []metric.PeriodicReaderOption{metric.WithProducer(&producer{gather: t.metrics, began: t.began})}
	if c.Interval > 0 {
		read = append(read, metric.WithInterval(c.Interval))
	}
	reader := metric.NewPeriodicReader(&countedMetrics{exporter, t.newResult("metrics")}, read...)
	return metric.NewMeterProvider(metric.WithReader(reader), metric.WithResource(about)), nil
}
