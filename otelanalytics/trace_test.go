package otelanalytics

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed-45eadc4a/analytics-go"
	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// The span of the webhook request is a child of the collector request's span. The collector
// request's span links to the span that made the call.
func TestTraceFromClientToWebhook(t *testing.T) {
	parents := make(chan string, 1)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { parents <- r.Header.Get("traceparent") }))
	t.Cleanup(hook.Close)
	srv := mockserver.RunT(t, mockserver.Config{
		Destinations: []tracking.Destination{{Name: "crm", Settings: webhook.Settings{Webhooks: []webhook.Endpoint{{URL: hook.URL}}}}},
	})
	o := newTelemetry(t)
	client := o.client(t, analytics.Config{Endpoint: srv.URL})
	ctx, span := o.tracers.Tracer("test").Start(context.Background(), "sign up")
	require.NoError(t, client.Enqueue(ctx, &analytics.Track{UserId: "user-123", Event: "Signed Up"}))
	span.End()
	require.NoError(t, client.Close())
	parent := <-parents

	var request trace.SpanContext
	for _, s := range o.spans.GetSpans() {
		if s.SpanKind == trace.SpanKindClient {
			request = s.SpanContext
			require.Len(t, s.Links, 1)
			require.Equal(t, span.SpanContext().SpanID(), s.Links[0].SpanContext.SpanID())
		}
	}
	require.True(t, request.IsValid())
	require.Equal(t, "00-"+request.TraceID().String()+"-"+request.SpanID().String(), parent[:52])
}
