package service

import (
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/config"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/telemetry"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/telemetry/otlptest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// sendTraced sends a call with a traceparent header.
func sendTraced(t *testing.T, url, id, traceparent string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/track", strings.NewReader(`{"event":"E","userId":"u","messageId":"`+id+`"}`))
	require.NoError(t, err)
	req.SetBasicAuth("web-key", "")
	req.Header.Set("traceparent", traceparent)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, 200, res.StatusCode)
}

// TestTracesContinueAfterRestart checks that a call has one trace even if one process accepts it
// and another process delivers it. It also reloads the configuration with a different receiver
// of spans.
func TestTracesContinueAfterRestart(t *testing.T) {
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	const traceparent = "00-" + trace + "-00f067aa0ba902b7-01"
	var up atomic.Bool
	parents := make(chan string, 100)
	webhook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !up.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		parents <- r.Header.Get("traceparent")
	}))
	t.Cleanup(webhook.Close)
	first, second, third := otlptest.HTTP(t), otlptest.GRPC(t), otlptest.HTTP(t)
	configured := func(o *telemetry.Config) *config.Config {
		return &config.Config{
			Listen: "127.0.0.1:0", Sources: []config.Source{{Name: "web", WriteKey: "web-key"}}, Telemetry: config.Telemetry{OTLP: o},
			Destinations: []config.Destination{hook("crm", webhook.URL)},
		}
	}
	c := configured(&telemetry.Config{Endpoint: first.URL})
	c.Data = t.TempDir()
	before, err := Start(t.Context(), Options{Dev: true, Config: c, Version: "test", Log: discard()})
	require.NoError(t, err)
	sendTraced(t, before.URL(), "m-1", traceparent)
	assert.Contains(t, <-parents, trace)
	require.NoError(t, before.shutdown())
	spans := first.Spans(t, 3)
	require.Len(t, spans["store web"], 1)
	stored := hex.EncodeToString(spans["store web"][0].GetSpanId())
	accepted := first.Metric(t, "collector.calls.accepted", func(*metricspb.Metric) bool { return true })
	assert.InDelta(t, 1, accepted.GetSum().GetDataPoints()[0].GetAsDouble(), 0)

	for len(parents) > 0 {
		<-parents
	}
	up.Store(true)
	next := configured(&telemetry.Config{Endpoint: second.URL, Protocol: telemetry.GRPC})
	next.Data = c.Data
	after := start(t, Options{Dev: true, Config: next})
	parent := <-parents
	waitFor(t, func() bool {
		r, _ := after.collector.History().Find("web", "m-1")
		last, _ := r.State("crm")
		return last.State == tracking.StateDelivered // the span of the delivery has ended
	})
	reloaded := configured(&telemetry.Config{Endpoint: third.URL})
	reloaded.Data, reloaded.Listen = c.Data, next.Listen
	restart, err := after.Reload(t.Context(), reloaded)
	require.NoError(t, err)
	assert.Empty(t, restart)
	delivered := second.Spans(t, 1)["deliver crm"]
	require.Len(t, delivered, 1)
	assert.Equal(t, stored, hex.EncodeToString(delivered[0].GetParentSpanId()), "the parent is a span of the process before")
	assert.Equal(t, "00-"+trace+"-"+hex.EncodeToString(delivered[0].GetSpanId())+"-01", parent)

	sendTraced(t, after.URL(), "m-2", traceparent)
	assert.NotEqual(t, traceparent, <-parents)
	reloaded = configured(nil)
	reloaded.Data = c.Data
	_, err = after.Reload(t.Context(), reloaded)
	require.NoError(t, err)
	third.Spans(t, 2)
	sendTraced(t, after.URL(), "m-3", traceparent)
	assert.Equal(t, traceparent, <-parents, "without telemetry it is passed on unchanged")
}
