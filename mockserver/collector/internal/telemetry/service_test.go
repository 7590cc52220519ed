package telemetry_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/config"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/service"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/telemetry"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// sendTraced sends a call with a traceparent header.
func sendTraced(t *testing.T, url, id string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/track", strings.NewReader(`{"event":"E","userId":"u","messageId":"`+id+`"}`))
	require.NoError(t, err)
	req.SetBasicAuth("web-key", "")
	req.Header.Set("traceparent", sampled)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, 200, res.StatusCode)
}

// serve starts a service. stop may be called several times.
func serve(t *testing.T, c *config.Config) (s *service.Service, stop func()) {
	t.Helper()
	s, err := service.Start(t.Context(), service.Options{Dev: true, Config: c, Version: "test", Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		assert.NoError(t, <-ended)
	})
	t.Cleanup(stop)
	return s, stop
}

// TestTracesContinueAfterRestart checks that a call has one trace even if one process accepts it
// and another process delivers it. It also reloads the configuration with a different receiver
// of spans.
func TestTracesContinueAfterRestart(t *testing.T) {
	var up atomic.Bool
	parents := make(chan string, 100)
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !up.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		parents <- r.Header.Get("traceparent")
	}))
	t.Cleanup(hook.Close)
	first, second, third := overHTTP(t), overGRPC(t), overHTTP(t)
	configured := func(o *telemetry.Config) *config.Config {
		return &config.Config{
			Listen: "127.0.0.1:0", Sources: []config.Source{{Name: "web", WriteKey: "web-key"}}, Telemetry: config.Telemetry{OTLP: o},
			Destinations: []config.Destination{{Destination: tracking.Destination{Name: "crm", Settings: webhook.Settings{Webhooks: []webhook.Endpoint{{URL: hook.URL}}}}}},
		}
	}
	c := configured(&telemetry.Config{Endpoint: first.URL})
	c.Data = t.TempDir()
	before, stop := serve(t, c)
	sendTraced(t, before.URL(), "m-1")
	assert.Contains(t, <-parents, traceID)
	stop()
	spans := first.Spans(t, 3)
	require.Len(t, spans["store web"], 1)
	stored := idOf(spans["store web"][0])
	accepted := first.Metric(t, "collector.calls.accepted", func(*metricspb.Metric) bool { return true })
	assert.InDelta(t, 1, accepted.GetSum().GetDataPoints()[0].GetAsDouble(), 0)

	for len(parents) > 0 {
		<-parents
	}
	up.Store(true)
	next := configured(&telemetry.Config{Endpoint: second.URL, Protocol: telemetry.GRPC})
	next.Data = c.Data
	after, _ := serve(t, next)
	parent := <-parents
	require.Eventually(t, func() bool {
		res, err := http.Get(after.AdminURL() + "/api/v1/calls/web/m-1")
		if err != nil {
			return false
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body)
		return strings.Contains(string(body), `"state":"delivered"`) // the span of the delivery has ended
	}, patience, 5*time.Millisecond)
	reloaded := configured(&telemetry.Config{Endpoint: third.URL})
	reloaded.Data, reloaded.Listen = c.Data, next.Listen
	restart, err := after.Reload(t.Context(), reloaded)
	require.NoError(t, err)
	assert.Empty(t, restart)
	delivered := second.Spans(t, 1)["deliver crm"]
	require.Len(t, delivered, 1)
	assert.Equal(t, stored, parentOf(delivered[0]), "the parent is a span of the process before")
	assert.Equal(t, "00-"+traceID+"-"+idOf(delivered[0])+"-01", parent)

	sendTraced(t, after.URL(), "m-2")
	assert.NotEqual(t, sampled, <-parents)
	reloaded = configured(nil)
	reloaded.Data = c.Data
	_, err = after.Reload(t.Context(), reloaded)
	require.NoError(t, err)
	third.Spans(t, 2)
	sendTraced(t, after.URL(), "m-3")
	assert.Equal(t, sampled, <-parents, "without telemetry it is passed on unchanged")
}
