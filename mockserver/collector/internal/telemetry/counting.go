package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
)

const (
	// logInterval is the minimum time between two log lines about telemetry that was not sent.
	logInterval = time.Minute
	// flushTimeout limits the last export when the collector stops or its settings change.
	flushTimeout = 5 * time.Second
)

// A result counts and logs the outcome of the exports of one signal.
type result struct {
	signal  string
	count   func(signal, result string, n int)
	log     *slog.Logger
	failing atomic.Bool
	logged  pause.Throttle
}

func (t *Telemetry) newResult(signal string) *result {
	return &result{signal: signal, count: t.count, log: t.log}
}

// exported counts an export of n spans, or an export of metrics.
func (r *result) exported(n int, err error) {
	if err == nil {
		r.count(r.signal, "sent", n)
		if r.failing.CompareAndSwap(true, false) {
			r.log.Info("OTLP export works again", "signal", r.signal)
		}
		return
	}
	r.failing.Store(true)
	r.lost("failed", n, err.Error())
}

func (r *result) lost(result string, n int, reason string) {
	r.count(r.signal, result, n)
	if ok, before := r.logged.Allow(time.Now(), logInterval, n); ok {
		r.log.Warn("OTLP export incomplete; calls are still accepted and delivered",
			"signal", r.signal, result, n, "since the last such line", before, "error", reason)
	}
}

// A countingProcessor is the batch processor of the SDK. It also counts dropped spans: spans that
// do not fit in its queue, and spans that are in progress at Shutdown.
type countingProcessor struct {
	sdktrace.SpanProcessor // its queue has room for at least limit+1 spans
	limit                  int64
	queued                 *atomic.Int64
	result                 *result

	mu         sync.Mutex // guards the fields below
	inProgress int
	closed     bool
}

func newCountingProcessor(exporter sdktrace.SpanExporter, limit int, r *result, options ...sdktrace.BatchSpanProcessorOption) *countingProcessor {
	queued := new(atomic.Int64)
	return &countingProcessor{
		SpanProcessor: sdktrace.NewBatchSpanProcessor(&spanExporter{exporter, queued, r}, append(options, sdktrace.WithMaxQueueSize(limit+1))...),
		limit:         int64(limit), queued: queued, result: r,
	}
}

// OnStart implements sdktrace.SpanProcessor.
func (p *countingProcessor) OnStart(_ context.Context, s sdktrace.ReadWriteSpan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !s.SpanContext().IsSampled():
	case p.closed:
		p.result.lost("dropped", 1, "the exporter was closed")
	default:
		p.inProgress++
	}
}

// OnEnd implements sdktrace.SpanProcessor.
func (p *countingProcessor) OnEnd(s sdktrace.ReadOnlySpan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !s.SpanContext().IsSampled() || p.closed {
		return
	}
	p.inProgress--
	if p.queued.Add(1) > p.limit {
		p.queued.Add(-1)
		p.result.lost("dropped", 1, "the queue is full")
		return
	}
	p.SpanProcessor.OnEnd(s)
}

// Shutdown implements sdktrace.SpanProcessor. It exports the spans that have ended.
func (p *countingProcessor) Shutdown(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	if p.inProgress > 0 {
		p.result.lost("dropped", p.inProgress, "their exporter was closed before they ended")
	}
	p.mu.Unlock()
	return p.SpanProcessor.Shutdown(ctx)
}

// A spanExporter counts the outcome of each export.
type spanExporter struct {
	sdktrace.SpanExporter
	queued *atomic.Int64
	result *result
}

// ExportSpans implements sdktrace.SpanExporter. It counts an error and returns nil.
func (e *spanExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	e.queued.Add(-int64(len(spans)))
	e.result.exported(len(spans), err)
	return nil
}

// A metricExporter counts the outcome of each export.
type metricExporter struct {
	metric.Exporter
	result *result
}

// Export implements metric.Exporter. It counts an error and returns nil.
func (e *metricExporter) Export(ctx context.Context, all *metricdata.ResourceMetrics) error {
	e.result.exported(1, e.Exporter.Export(ctx, all))
	return nil
}
