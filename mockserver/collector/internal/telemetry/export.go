package telemetry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	prombridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

const (
	// queuedSpans limits the number of queued spans, which use a few megabytes.
	queuedSpans = 8192
	// maxText limits string attributes, because senders choose some of them.
	maxText = 256
)

// retries contains the retry settings of all exporters. Each exporter has its own type with these fields.
// MaxElapsedTime limits an export, including its retries. Failed exports are counted and logged.
var retries = struct {
	Enabled                                      bool
	InitialInterval, MaxInterval, MaxElapsedTime time.Duration
}{true, 500 * time.Millisecond, 4 * time.Second, 10 * time.Second}

// disabled reports whether the environment disables all exports.
func disabled() bool { return strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") }

// describe returns the resource of all traces and metrics, which describes this collector.
func describe(ctx context.Context, version string) (*resource.Resource, error) {
	host, _ := os.Hostname()
	return resource.New(ctx,
		resource.WithAttributes(semconv.ServiceName("collector"), semconv.ServiceVersion(version), semconv.ServiceInstanceID(host)),
		resource.WithTelemetrySDK(), resource.WithHost(), resource.WithFromEnv())
}

// target returns the protocol (GRPC or HTTP) and the URL for a signal. The URL is "" if the environment
// sets it.
func (c *Config) target(signal, path string) (protocol, url string, err error) {
	name := "OTEL_EXPORTER_OTLP_PROTOCOL"
	if own := "OTEL_EXPORTER_OTLP_" + signal + "_PROTOCOL"; os.Getenv(own) != "" {
		name = own
	}
	switch p := cmp.Or(c.Protocol, os.Getenv(name)); p {
	case "", HTTP, "http/protobuf":
		protocol = HTTP
	case GRPC:
		protocol, path = GRPC, ""
	default:
		return "", "", fmt.Errorf("%s sets the unknown protocol %s: use grpc or http/protobuf", name, text.Quote(text.MaxRepeated, p))
	}
	switch url = c.Endpoint; {
	case url == "":
		return protocol, "", nil
	case strings.Contains(url, "://"):
	case c.Insecure:
		url = "http://" + url
	default:
		url = "https://" + url
	}
	if path != "" {
		url = strings.TrimSuffix(url, "/") + path
	}
	return protocol, url, nil
}

// options adds the options for c to all, which contains other options of one of the four exporters. It
// is generic because each exporter has its own option type. The environment sets the remaining options.
func options[O any](c *Config, url string, endpoint func(string) O, headers func(map[string]string) O, insecure func() O, all ...O) []O {
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
	protocol, url, err := c.target("TRACES", "/v1/traces")
	if err != nil {
		return nil, err
	}
	var exporter sdktrace.SpanExporter
	if protocol == GRPC {
		exporter, err = otlptracegrpc.New(ctx, options(c, url, otlptracegrpc.WithEndpointURL, otlptracegrpc.WithHeaders, otlptracegrpc.WithInsecure,
			otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig(retries)))...)
	} else {
		exporter, err = otlptracehttp.New(ctx, options(c, url, otlptracehttp.WithEndpointURL, otlptracehttp.WithHeaders, otlptracehttp.WithInsecure,
			otlptracehttp.WithRetry(otlptracehttp.RetryConfig(retries)), otlptracehttp.WithCompression(otlptracehttp.GzipCompression))...)
	}
	if err != nil {
		return nil, err
	}
	limits := sdktrace.NewSpanLimits()
	if limits.AttributeValueLengthLimit < 0 {
		limits.AttributeValueLengthLimit = maxText
	}
	most, batches, err := batchSettings()
	if err != nil {
		return nil, errors.Join(err, exporter.Shutdown(ctx))
	}
	provide := []sdktrace.TracerProviderOption{
		sdktrace.WithResource(about), sdktrace.WithRawSpanLimits(limits), sdktrace.WithSpanProcessor(newCountingProcessor(exporter, most, t.newResult("traces"), batches...)),
	}
	if sampler := c.sampler(); sampler != nil {
		provide = append(provide, sdktrace.WithSampler(sampler))
	}
	return sdktrace.NewTracerProvider(provide...), nil
}

// sampler returns the sampler, or nil if the environment selects it.
func (c *Config) sampler() sdktrace.Sampler {
	switch {
	case c.Traces.Ratio != nil:
		return sdktrace.ParentBased(sdktrace.TraceIDRatioBased(*c.Traces.Ratio))
	case os.Getenv("OTEL_TRACES_SAMPLER") != "":
		return nil
	}
	return sdktrace.ParentBased(sdktrace.AlwaysSample())
}

// batchSettings returns the maximum number of queued spans and the other settings of batches
// from the environment. The SDK does not check their ranges.
func batchSettings() (queue int, batches []sdktrace.BatchSpanProcessorOption, err error) {
	var errs []error
	number := func(name string, otherwise, most int) int {
		given := os.Getenv(name)
		if given == "" {
			return otherwise
		}
		n, err := strconv.Atoi(given)
		if err != nil || n < 1 || n > most {
			errs = append(errs, fmt.Errorf("%s is %s: use a whole number from 1 to %d", name, text.Quote(text.MaxRepeated, given), most))
		}
		return n
	}
	const maxSpans, maxDelay = 1_000_000, 3_600_000 // milliseconds
	queue = number("OTEL_BSP_MAX_QUEUE_SIZE", queuedSpans, maxSpans)
	size := number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", sdktrace.DefaultMaxExportBatchSize, maxSpans)
	delay := number("OTEL_BSP_SCHEDULE_DELAY", sdktrace.DefaultScheduleDelay, maxDelay)
	timeout := number("OTEL_BSP_EXPORT_TIMEOUT", sdktrace.DefaultExportTimeout, maxDelay)
	return queue, []sdktrace.BatchSpanProcessorOption{
		sdktrace.WithMaxExportBatchSize(min(size, queue)), sdktrace.WithBatchTimeout(time.Duration(delay) * time.Millisecond),
		sdktrace.WithExportTimeout(time.Duration(timeout) * time.Millisecond),
	}, errors.Join(errs...)
}

func (t *Telemetry) newMetrics(ctx context.Context, c *Config, about *resource.Resource) (*metric.MeterProvider, error) {
	protocol, url, err := c.target("METRICS", "/v1/metrics")
	if err != nil {
		return nil, err
	}
	var exporter metric.Exporter
	if protocol == GRPC {
		exporter, err = otlpmetricgrpc.New(ctx, options(c, url, otlpmetricgrpc.WithEndpointURL, otlpmetricgrpc.WithHeaders, otlpmetricgrpc.WithInsecure,
			otlpmetricgrpc.WithRetry(otlpmetricgrpc.RetryConfig(retries)))...)
	} else {
		exporter, err = otlpmetrichttp.New(ctx, options(c, url, otlpmetrichttp.WithEndpointURL, otlpmetrichttp.WithHeaders, otlpmetrichttp.WithInsecure,
			otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig(retries)), otlpmetrichttp.WithCompression(otlpmetrichttp.GzipCompression))...)
	}
	if err != nil {
		return nil, err
	}
	read := []metric.PeriodicReaderOption{metric.WithProducer(&producer{prombridge.NewMetricProducer(prombridge.WithGatherer(t.metrics))})}
	if c.Metrics.Interval > 0 {
		read = append(read, metric.WithInterval(c.Metrics.Interval))
	}
	reader := metric.NewPeriodicReader(&metricExporter{exporter, t.newResult("metrics")}, read...)
	return metric.NewMeterProvider(metric.WithReader(reader), metric.WithResource(about)), nil
}
