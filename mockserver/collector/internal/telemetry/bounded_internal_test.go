package telemetry

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// exported counts the spans that it gets.
type exported struct{ n atomic.Int64 }

func (e *exported) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	e.n.Add(int64(len(spans)))
	return nil
}

func (*exported) Shutdown(context.Context) error { return nil }

func TestSpansThatDoNotEndInTimeAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counts := map[string]*atomic.Int64{"sent": {}, "dropped": {}}
		tel := New("test", nil, func(_, result string, n int) { counts[result].Add(int64(n)) }, slog.New(slog.DiscardHandler))
		spans := &exported{}
		provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(newBounded(spans, 10, tel.newResult("traces"))))
		tracer := provider.Tracer("test")
		_, atOnce := tracer.Start(t.Context(), "ends at once")
		atOnce.End()
		_, soon := tracer.Start(t.Context(), "ends soon")
		time.AfterFunc(spanPatience-time.Second, func() { soon.End() })
		_, late := tracer.Start(t.Context(), "ends late")
		if err := provider.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		late.End()
		if n, sent, dropped := spans.n.Load(), counts["sent"].Load(), counts["dropped"].Load(); n != 2 || sent != 2 || dropped != 1 {
			t.Errorf("%d spans came, %d were counted as sent and %d as dropped; want 2, 2 and 1", n, sent, dropped)
		}
	})
}

// A stuck exporter exports nothing until it is let go.
type stuck struct {
	exported
	letGo chan struct{}
}

func (e *stuck) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error {
	<-e.letGo
	return nil
}

// closeWith ends one span and begins another, closes what sends them, and returns how much
// of the time for that was left, and how many spans were sent.
func closeWith(t *testing.T, exporter sdktrace.SpanExporter) (left time.Duration, sent int64) {
	counts := map[string]*atomic.Int64{"sent": {}, "dropped": {}}
	tel := New("test", nil, func(_, result string, n int) { counts[result].Add(int64(n)) }, slog.New(slog.DiscardHandler))
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(newBounded(exporter, 10, tel.newResult("traces"))))
	tel.now.Store(&providers{tracer: provider.Tracer("test"), traces: provider})
	_, ends := tel.tracer().Start(t.Context(), "ends")
	ends.End()
	_, never := tel.tracer().Start(t.Context(), "never ends")
	defer never.End()
	ctx, cancel := context.WithTimeout(t.Context(), flushTimeout+time.Second)
	defer cancel()
	deadline, _ := ctx.Deadline()
	tel.Close(ctx)
	return time.Until(deadline), counts["sent"].Load()
}

// TestCloseEndsInTime: neither a span that never ends nor a receiver that does not answer
// makes it wait for longer than it may, and the first leaves time to send the others.
func TestCloseEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if left, sent := closeWith(t, &exported{}); left != flushTimeout || sent != 1 {
			t.Errorf("%v were left, and %d spans sent; want %v and 1", left, sent, flushTimeout)
		}
		e := &stuck{letGo: make(chan struct{})}
		if left, sent := closeWith(t, e); left != 0 || sent != 0 {
			t.Errorf("%v were left, and %d spans sent, to a receiver that does not answer; want none", left, sent)
		}
		close(e.letGo)
	})
}
