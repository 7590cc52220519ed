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

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/logthrottle"
)

const (
	// sayEvery is how often the log says at most that something is not sent.
	sayEvery = time.Minute
	// flushTimeout bounds how long is waited for what is still to be sent, when the
	// collector ends or the settings change, and spanPatience before that for spans that
	// have begun: a request to a webhook may take as long.
	flushTimeout = 5 * time.Second
	spanPatience = 6 * time.Second
)

// A result counts what became of what was to be sent, and says it in the log.
type result struct {
	signal  string
	count   func(signal, result string, n int)
	log     *slog.Logger
	failing atomic.Bool
	said    logthrottle.Throttle
}

func (t *Telemetry) newResult(signal string) *result {
	return &result{signal: signal, count: t.count, log: t.log}
}

// add counts n that were sent, or were not for err.
func (r *result) add(n int, err error) {
	if err == nil {
		r.count(r.signal, "sent", n)
		if r.failing.CompareAndSwap(true, false) {
			r.log.Info("OTLP: they are sent again", "signal", r.signal)
		}
		return
	}
	r.failing.Store(true)
	r.lost("failed", n, "error", err)
}

// drop counts n for which there is no room.
func (r *result) drop(n int) { r.lost("dropped", n, "error", "more came than could be sent") }

func (r *result) lost(how string, n int, why ...any) {
	r.count(r.signal, how, n)
	if ok, before := r.said.Allow(time.Now(), sayEvery, n); ok {
		r.log.Warn("OTLP: they are not sent; calls are taken and delivered all the same",
			append([]any{"signal", r.signal, how, n, "and since the last line", before}, why...)...)
	}
}

// A bounded is a batch processor of spans that counts those it has no room for, and those
// that end after it, which the library's own does not tell.
type bounded struct {
	sdktrace.SpanProcessor // the library's, which has room for more
	most                   int64
	waiting                *atomic.Int64 // spans that are in it
	result                 *result

	mu   sync.Mutex    // guards what follows
	open int           // spans that have begun and not ended
	idle chan struct{} // of Shutdown, which waits; whoever ends the last span closes it
}

func newBounded(exporter sdktrace.SpanExporter, most int, r *result) *bounded {
	waiting := new(atomic.Int64)
	return &bounded{
		SpanProcessor: sdktrace.NewBatchSpanProcessor(&countedSpans{exporter, waiting, r}, sdktrace.WithMaxQueueSize(most+1)),
		most:          int64(most), waiting: waiting, result: r,
	}
}

// OnStart implements sdktrace.SpanProcessor.
func (b *bounded) OnStart(_ context.Context, s sdktrace.ReadWriteSpan) {
	if s.SpanContext().IsSampled() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.open++
	}
}

// OnEnd implements sdktrace.SpanProcessor.
func (b *bounded) OnEnd(s sdktrace.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return
	}
	defer b.ended()
	if b.waiting.Add(1) > b.most {
		b.waiting.Add(-1)
		b.result.drop(1)
		return
	}
	b.SpanProcessor.OnEnd(s)
}

func (b *bounded) ended() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open--
	b.tellIdle()
}

// tellIdle wakes Shutdown where no span is open. The lock is held.
func (b *bounded) tellIdle() {
	if b.idle != nil && b.open == 0 {
		close(b.idle)
		b.idle = nil
	}
}

// Shutdown implements sdktrace.SpanProcessor. It waits a while for spans that have begun, and
// counts those that have not ended then. Where ctx ends early, what has ended is sent first.
func (b *bounded) Shutdown(ctx context.Context) error {
	idle := make(chan struct{})
	b.mu.Lock()
	b.idle = idle
	b.tellIdle()
	b.mu.Unlock()
	wait := spanPatience
	if deadline, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(deadline)-flushTimeout)
	}
	patience := time.NewTimer(wait)
	defer patience.Stop()
	select {
	case <-idle:
	case <-patience.C:
		b.mu.Lock()
		left := b.open
		b.mu.Unlock()
		b.result.lost("dropped", left, "error", "they had not ended when it was no longer to be sent there")
	}
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	return b.SpanProcessor.Shutdown(ctx)
}

// countedSpans counts how exports of spans went.
type countedSpans struct {
	sdktrace.SpanExporter
	waiting *atomic.Int64
	result  *result
}

// ExportSpans implements sdktrace.SpanExporter. Its error is counted, and nil.
func (e *countedSpans) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	e.waiting.Add(-int64(len(spans)))
	e.result.add(len(spans), err)
	return nil
}

// countedMetrics counts how exports of metrics went.
type countedMetrics struct {
	metric.Exporter
	result *result
}

// Export implements metric.Exporter. Its error is counted, and nil.
func (e *countedMetrics) Export(ctx context.Context, all *metricdata.ResourceMetrics) error {
	e.result.add(1, e.Exporter.Export(ctx, all))
	return nil
}
