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

// scope names what made the spans and metrics.
const scope = "github.com/seed-45eadc4a/analytics-go/mockserver/collector"

// A Config says where traces and metrics go. What it leaves out the environment may say, by
// the variables of OpenTelemetry that begin with OTEL_.
type Config struct {
	Endpoint string // a URL, or host:port. Defaults to OTEL_EXPORTER_OTLP_ENDPOINT, or else this machine
	Protocol string // GRPC or HTTP. Defaults to OTEL_EXPORTER_OTLP_PROTOCOL, or else HTTP
	Headers  map[string]string
	Insecure bool // host:port without TLS
	NoTraces bool
	// Ratio is which part of the traces is recorded that no sender has decided about.
	// Defaults to OTEL_TRACES_SAMPLER, or else all.
	Ratio     *float64
	NoMetrics bool
	Interval  time.Duration // of metrics. Defaults to OTEL_METRIC_EXPORT_INTERVAL, or else a minute
}

// Values of Config.Protocol.
const (
	GRPC = "grpc"
	HTTP = "http"
)

// A Telemetry sends traces and metrics. Its methods may be called from many goroutines at
// once.
type Telemetry struct {
	version string
	metrics prometheus.Gatherer
	count   func(signal, result string, n int)
	log     *slog.Logger
	began   time.Time                 // what is counted
	now     atomic.Pointer[providers] // nil while nothing is sent

	changing sync.Mutex // lets one Configure or Close run at a time; guards what follows
	config   *Config
	ending   sync.WaitGroup // providers that were replaced
}

// providers are what one Config is made into.
type providers struct {
	tracer  trace.Tracer             // nil where there are no traces
	traces  *sdktrace.TracerProvider // nil where there are none
	metrics *metric.MeterProvider    // nil where there are none
}

// New returns one that sends nothing yet. count is told what became of spans, and of exports of
// metrics: how many were sent, failed or were dropped.
func New(version string, metrics prometheus.Gatherer, count func(signal, result string, n int), log *slog.Logger) *Telemetry {
	return &Telemetry{version: version, metrics: metrics, count: count, log: log, began: time.Now()}
}

// tracer returns what makes spans; nil where there are none.
func (t *Telemetry) tracer() trace.Tracer {
	if p := t.now.Load(); p != nil {
		return p.tracer
	}
	return nil
}
