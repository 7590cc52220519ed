package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
)

// Journal wraps a journal with a span for each batch of a traced request.
func (t *Telemetry) Journal(j journal.Journal) journal.Journal { return &tracedJournal{j, t} }

type tracedJournal struct {
	journal.Journal
	telemetry *Telemetry
}

// Append implements journal.Journal. It stores the span's context with the batch.
func (j *tracedJournal) Append(ctx context.Context, b event.Batch) error {
	tracer := j.telemetry.tracer()
	if tracer == nil || b.Trace == nil || !b.Trace.Sampled() {
		return j.Journal.Append(ctx, b)
	}
	_, span := tracer.Start(remote(ctx, b.Trace), "store "+b.Source, trace.WithSpanKind(trace.SpanKindProducer),
		trace.WithAttributes(messaging, semconv.MessagingOperationName("store"), semconv.MessagingOperationTypeSend,
			semconv.MessagingDestinationName(b.Source), semconv.MessagingBatchMessageCount(len(b.Calls))))
	defer span.End()
	if span.IsRecording() {
		b.Trace = contextOf(span, b.Trace)
	}
	err := j.Journal.Append(ctx, b)
	if err != nil {
		span.SetAttributes(semconv.ErrorTypeOther)
		span.SetStatus(codes.Error, err.Error())
	}
	return err
}
