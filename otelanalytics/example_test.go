package otelanalytics_test

import (
	"context"
	"fmt"
	"log"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/seed-45eadc4a/analytics-go"
	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/otelanalytics"
)

// This example prints its spans. A real program exports metrics and spans to a backend.
func Example() {
	srv, err := mockserver.Run(mockserver.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	spans := tracetest.NewInMemoryExporter()
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	options := []otelanalytics.Option{
		otelanalytics.WithTracerProvider(tracers), // the default is the global provider
		otelanalytics.WithMeterProvider(meters),
	}

	cfg, err := otelanalytics.Configure(analytics.Config{Endpoint: srv.URL}, options...)
	if err != nil {
		log.Fatal(err)
	}
	client, err := analytics.NewWithConfig("any-key", cfg)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := otelanalytics.Observe(client, options...); err != nil {
		log.Fatal(err)
	}

	ctx, span := tracers.Tracer("shop").Start(context.Background(), "checkout")
	err = client.Enqueue(ctx, &analytics.Track{UserId: "u", Event: "Order Completed"})
	span.End()
	if err == nil {
		err = client.Close()
	}
	fmt.Println(err)

	checkout, request := spans.GetSpans()[0], spans.GetSpans()[1]
	fmt.Println(request.Name, request.Links[0].SpanContext.SpanID() == checkout.SpanContext.SpanID())

	// Output:
	// <nil>
	// POST /v1/batch true
}
