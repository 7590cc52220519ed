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
