package telemetry

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// scope is the instrumentation scope of all spans and metrics.
const scope = "github.com/seed-45eadc4a/analytics-go/mockserver/collector"

// A Config selects the receiver of traces and metrics. The OTEL_ environment variables of
// OpenTelemetry provide values for empty fields.
type Config struct {
	Endpoint string            `yaml:"endpoint"` // URL or host:port; defaults to OTEL_EXPORTER_OTLP_ENDPOINT, then to localhost
	Protocol string            `yaml:"protocol"` // GRPC or HTTP; defaults to OTEL_EXPORTER_OTLP_PROTOCOL, then HTTP
	Headers  map[string]string `yaml:"headers"`
	Insecure bool              `yaml:"insecure"` // do not use TLS if Endpoint is host:port
	Traces   Traces            `yaml:"traces"`
	Metrics  Metrics           `yaml:"metrics"`
}

// Traces configures the export of traces.
type Traces struct {
	Enabled *bool `yaml:"enabled"` // defaults to true
	// Ratio is the share of traces to record, from 0 to 1, if the sender has not decided.
	// It defaults to OTEL_TRACES_SAMPLER, then to 1.
	Ratio *float64 `yaml:"ratio"`
}

// Metrics configures the export of metrics.
type Metrics struct {
	Enabled  *bool         `yaml:"enabled"`  // defaults to true
	Interval time.Duration `yaml:"interval"` // time between exports; defaults to OTEL_METRIC_EXPORT_INTERVAL, then a minute
}

func isOn(enabled *bool) bool { return enabled == nil || *enabled }

// Values of Config.Protocol.
const (
	GRPC = "grpc"
	HTTP = "http"
)

// A Telemetry exports traces and metrics. Its methods are safe for concurrent use.
type Telemetry struct {
	version string
	metrics prometheus.Gatherer
	count   func(signal, result string, n int)
	log     *slog.Logger
	now     atomic.Pointer[providers] // nil without exporters

	changing sync.Mutex // serializes Configure and Close; guards config
	config   *Config
	ending   sync.WaitGroup // shutdowns of replaced providers
}

// providers contains the exporters for one Config.
type providers struct {
	tracer  trace.Tracer             // nil if traces are off
	traces  *sdktrace.TracerProvider // nil if traces are off
	metrics *metric.MeterProvider    // nil if metrics are off
}

// New returns a Telemetry without exporters. Configure adds exporters. New calls count with a
// signal, a result (sent, failed or dropped), and the number of spans or of exports of metrics.
func New(version string, metrics prometheus.Gatherer, count func(signal, result string, n int), log *slog.Logger) *Telemetry {
	return &Telemetry{version: version, metrics: metrics, count: count, log: log}
}

// tracer returns the current tracer, or nil if traces are not exported.
func (t *Telemetry) tracer() trace.Tracer {
	if p := t.now.Load(); p != nil {
		return p.tracer
	}
	return nil
}
