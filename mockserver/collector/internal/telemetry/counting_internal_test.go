package telemetry

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// A stuckExporter exports nothing until release is closed.
type stuckExporter struct{ release chan struct{} }

func (e *stuckExporter) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error {
	<-e.release
	return nil
}

func (*stuckExporter) Shutdown(context.Context) error { return nil }

// TestCloseCountsEverySpan checks that spans are counted whether they end before or after Close.
// It also checks that Close waits for a receiver no longer than flushTimeout.
func TestCloseCountsEverySpan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counts := map[string]int{}
		tel := New("test", nil, func(_, result string, n int) { counts[result] += n }, slog.New(slog.DiscardHandler))
		exporter := &stuckExporter{release: make(chan struct{})}
		provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(newCountingProcessor(exporter, 10, tel.newResult("traces"))))
		tel.now.Store(&providers{tracer: provider.Tracer("test"), traces: provider})
		_, early := tel.tracer().Start(t.Context(), "ends before Close")
		_, late := tel.tracer().Start(t.Context(), "ends after Close")
		early.End()

		began := time.Now()
		tel.Close(t.Context())
		if took := time.Since(began); took != flushTimeout {
			t.Errorf("Close took %v, want %v", took, flushTimeout)
		}
		late.End()
		close(exporter.release)
		synctest.Wait()
		if counts["sent"] != 1 || counts["dropped"] != 1 {
			t.Errorf("counted %v, want 1 sent and 1 dropped", counts)
		}
	})
}
