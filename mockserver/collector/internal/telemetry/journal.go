package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
)

// Journal returns the journal with a span for each batch of a traced request that it stores.
func (t *Telemetry) Journal(j journal.Journal) journal.Journal { return &tracedJournal{j, t} }

type tracedJournal struct {
	journal.Journal
	telemetry *Telemetry
}

// Append implements journal.Journal. What is stored has the context of the span.
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
