package telemetry_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracespb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/telemetry"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

const (
	traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
	spanID  = "00f067aa0ba902b7"
	sampled = "00-" + traceID + "-" + spanID + "-01"
)

// off turns off the export of metrics.
var off = telemetry.Metrics{Enabled: new(bool)}

// counts contains the number of spans and exports with each result.
type counts struct {
	mu sync.Mutex // guards of
	of map[string]int
}

func (c *counts) add(signal, result string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[string]int{}
	}
	c.of[signal+" "+result] += n
}

func (c *counts) get(what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of[what]
}

// A lockedBuffer is a log buffer that is safe for concurrent use.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// A rig is a collector with telemetry and a webhook.
type rig struct {
	*telemetry.Telemetry
	http.Handler
	collector *engine.Collector
	counts    counts
	log       lockedBuffer
	parents   chan string   // traceparent headers of requests to the webhook
	status    chan int      // status codes of the next responses; defaults to 200
	hold      chan struct{} // delays responses until it is closed; may be nil
}

func newRig(t *testing.T, registry prometheus.Gatherer) *rig {
	for _, variable := range os.Environ() { // the environment of the tests may set OTEL_ variables
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "OTEL_") {
			t.Setenv(name, "")
		}
	}
	r := &rig{parents: make(chan string, 100), status: make(chan int, 100)}
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		hold := r.hold
		r.parents <- req.Header.Get("traceparent")
		if hold != nil {
			<-hold
		}
		select {
		case status := <-r.status:
			w.WriteHeader(status)
		default:
		}
		_, _ = io.WriteString(w, "thanks")
	}))
	t.Cleanup(receiver.Close)
	r.Telemetry = telemetry.New("test", registry, r.counts.add, slog.New(slog.NewTextHandler(&r.log, nil)))
	t.Cleanup(func() { r.Close(context.Background()) })
	c, err := engine.New(engine.Config{
		AnyWriteKey:  true,
		Destinations: []tracking.Destination{{Name: "crm", Settings: webhook.Settings{Webhooks: []webhook.Endpoint{{URL: receiver.URL + "/secret?token=1"}}}}},
		Sender:       webhook.SenderConfig{Policy: webhook.Policy{AllowLoopback: true}},
		Journal:      r.Journal(journal.NewMemory(0)), WrapTransport: r.Transport, Jitter: func() float64 { return 0 },
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	r.collector, r.Handler = c, r.Telemetry.Handler(c)
	return r
}

func (r *rig) configure(t *testing.T, c *telemetry.Config) {
	t.Helper()
	require.NoError(t, r.Configure(t.Context(), c))
}

// send sends a call and returns the status.
func (r *rig) send(id, traceparent string) int {
	req := httptest.NewRequest("POST", "/v1/track", strings.NewReader(`{"event":"e","userId":"u","messageId":"`+id+`"}`))
	req.SetBasicAuth("web", "")
	if traceparent != "" {
		req.Header.Set("traceparent", traceparent)
	}
	res := httptest.NewRecorder()
	r.ServeHTTP(res, req)
	return res.Code
}

func attributes(s *tracespb.Span) map[string]any { return values(s.GetAttributes()) }

func values(list []*common.KeyValue) map[string]any {
	all := map[string]any{}
	for _, a := range list {
		switch v := a.GetValue().GetValue().(type) {
		case *common.AnyValue_StringValue:
			all[a.GetKey()] = v.StringValue
		case *common.AnyValue_IntValue:
			all[a.GetKey()] = int(v.IntValue)
		}
	}
	return all
}

func idOf(s *tracespb.Span) string     { return hex.EncodeToString(s.GetSpanId()) }
func parentOf(s *tracespb.Span) string { return hex.EncodeToString(s.GetParentSpanId()) }
func traceOf(s *tracespb.Span) string  { return hex.EncodeToString(s.GetTraceId()) }

func TestSpansOfACall(t *testing.T) {
	for protocol, newReceiver := range map[string]func(testing.TB) *receiver{telemetry.GRPC: overGRPC, telemetry.HTTP: overHTTP} {
		t.Run(protocol, func(t *testing.T) {
			receiver := newReceiver(t)
			r := newRig(t, prometheus.NewRegistry())
			r.configure(t, &telemetry.Config{Endpoint: receiver.URL, Protocol: protocol, Headers: map[string]string{"Authorization": "Bearer x"}, Metrics: off})
			r.status <- http.StatusServiceUnavailable
			require.Equal(t, 200, r.send("m-1", sampled))
			got := []string{<-r.parents, <-r.parents} // the second request arrives within a second, because Jitter is 0
			require.NoError(t, r.collector.Shutdown(t.Context()))
			r.Close(t.Context())

			spans := receiver.Spans(t, 4)
			require.Len(t, spans["POST /v1/track"], 1)
			require.Len(t, spans["store web"], 1)
			require.Len(t, spans["deliver crm"], 2)
			accept, store := spans["POST /v1/track"][0], spans["store web"][0]
			assert.Equal(t, tracespb.Span_SPAN_KIND_SERVER, accept.GetKind())
			assert.Equal(t, spanID, parentOf(accept))
			assert.Equal(t, map[string]any{
				"http.request.method": "POST", "http.route": "/v1/track", "url.scheme": "http", "http.response.status_code": 200,
			}, attributes(accept))
			assert.Equal(t, tracespb.Span_SPAN_KIND_PRODUCER, store.GetKind())
			assert.Equal(t, idOf(accept), parentOf(store))
			assert.Equal(t, map[string]any{
				"messaging.system": "analytics_collector", "messaging.operation.name": "store", "messaging.operation.type": "send",
				"messaging.destination.name": "web", "messaging.batch.message_count": 1,
			}, attributes(store))
			for i, s := range spans["deliver crm"] {
				assert.Equal(t, tracespb.Span_SPAN_KIND_CLIENT, s.GetKind())
				assert.Equal(t, idOf(store), parentOf(s), "a retry has the parent that the first attempt has")
				require.Len(t, s.GetLinks(), 1)
				assert.Equal(t, store.GetSpanId(), s.GetLinks()[0].GetSpanId())
				assert.Equal(t, "00-"+traceID+"-"+idOf(s)+"-01", got[i], "the span is the parent at the webhook")
				assert.LessOrEqual(t, store.GetStartTimeUnixNano(), s.GetStartTimeUnixNano())
				a := attributes(s)
				assert.Equal(t, "127.0.0.1", a["server.address"])
				assert.Equal(t, "web", a["messaging.destination.name"])
				assert.Equal(t, "crm", a["messaging.destination.subscription.name"])
				assert.Equal(t, "m-1", a["messaging.message.id"])
				assert.NotContains(t, s.String(), "secret", "the path of a webhook may be one")
			}
			first, second := spans["deliver crm"][0], spans["deliver crm"][1]
			assert.Equal(t, 503, attributes(first)["http.response.status_code"])
			assert.Equal(t, "503", attributes(first)["error.type"])
			assert.Equal(t, tracespb.Status_STATUS_CODE_ERROR, first.GetStatus().GetCode())
			assert.Equal(t, 200, attributes(second)["http.response.status_code"])
			assert.Equal(t, 1, attributes(second)["http.request.resend_count"])
			for _, list := range spans {
				for _, s := range list {
					assert.Equal(t, traceID, traceOf(s))
				}
			}
			assert.Equal(t, "collector", receiver.Resource("service.name"))
			assert.Equal(t, "test", receiver.Resource("service.version"))
			assert.Equal(t, "Bearer x", receiver.Tokens()[0])
			assert.Equal(t, 4, r.counts.get("traces sent"))
		})
	}
}

func TestSenderDecidesSampling(t *testing.T) {
	none, all := 0.0, 1.0
	notSampled := sampled[:len(sampled)-2] + "00"
	for name, c := range map[string]struct {
		ratio  *float64
		parent string
		spans  int
		same   bool // whether the webhook receives the sender's context
	}{
		"recorded by the sender":     {&none, sampled, 3, false},
		"not recorded by the sender": {&all, notSampled, 0, true},
		"not decided, ratio 1":       {&all, "", 3, false},
		"not decided, ratio 0":       {&none, "", 0, true},
		"not decided, no ratio":      {nil, "", 3, false},
	} {
		t.Run(name, func(t *testing.T) {
			receiver := overHTTP(t)
			r := newRig(t, prometheus.NewRegistry())
			r.configure(t, &telemetry.Config{Endpoint: receiver.URL, Traces: telemetry.Traces{Ratio: c.ratio}, Metrics: off})
			require.Equal(t, 200, r.send("m-1", c.parent))
			got := <-r.parents
			require.NoError(t, r.collector.Shutdown(t.Context()))
			r.Close(t.Context())
			assert.Equal(t, c.spans, r.counts.get("traces sent"))
			assert.Equal(t, c.same, got == c.parent, "%q", got)
		})
	}
}

func TestRefusedRequestsHaveSpans(t *testing.T) {
	receiver := overHTTP(t)
	r := newRig(t, prometheus.NewRegistry())
	r.configure(t, &telemetry.Config{Endpoint: receiver.URL, Metrics: off})
	req := httptest.NewRequest("POST", "/v1/batch", strings.NewReader("{"))
	res := httptest.NewRecorder()
	r.ServeHTTP(res, req)
	require.Equal(t, 400, res.Code)
	res = httptest.NewRecorder()
	r.ServeHTTP(res, httptest.NewRequest("POST", "/v1/nothing", nil))
	require.Equal(t, 404, res.Code)
	require.NoError(t, r.collector.Shutdown(t.Context()))
	assert.Equal(t, 503, r.send("m-1", ""), "the journal is closed")
	r.Close(t.Context())
	spans := receiver.Spans(t, 3)
	require.Len(t, spans["POST /v1/batch"], 1)
	assert.Equal(t, 400, attributes(spans["POST /v1/batch"][0])["http.response.status_code"])
	assert.Empty(t, spans["POST /v1/batch"][0].GetStatus().GetCode(), "it is the sender's fault")
	require.Len(t, spans["POST /v1/track"], 1)
	assert.Equal(t, "503", attributes(spans["POST /v1/track"][0])["error.type"])
	require.Len(t, spans["store web"], 1)
	assert.Equal(t, tracespb.Status_STATUS_CODE_ERROR, spans["store web"][0].GetStatus().GetCode())
}

func TestConfigureTakesEffectAtOnce(t *testing.T) {
	r := newRig(t, prometheus.NewRegistry())
	require.Equal(t, 200, r.send("m-0", sampled))
	assert.Equal(t, sampled, <-r.parents, "nothing is sent yet")
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10") // milliseconds
	first, second := overHTTP(t), overGRPC(t)
	r.configure(t, &telemetry.Config{Endpoint: first.URL, Metrics: off})
	r.hold = make(chan struct{})
	require.Equal(t, 200, r.send("m-1", sampled))
	assert.NotEqual(t, sampled, <-r.parents)
	// The first receiver gets the spans that have ended. The span of the request in progress is
	// counted as dropped.
	r.configure(t, &telemetry.Config{Endpoint: strings.TrimPrefix(second.URL, "http://"), Protocol: telemetry.GRPC, Insecure: true, Metrics: off})
	first.Spans(t, 2)
	close(r.hold)
	require.Equal(t, 200, r.send("m-2", sampled))
	<-r.parents
	second.Spans(t, 3)
	r.configure(t, nil)
	r.Close(t.Context())
	assert.Equal(t, 1, r.counts.get("traces dropped"))
	require.Equal(t, 200, r.send("m-3", sampled))
	assert.Equal(t, sampled, <-r.parents)
}

func TestUnreachableReceiver(t *testing.T) {
	r := newRig(t, prometheus.NewRegistry())
	dead := httptest.NewServer(http.NotFoundHandler())
	dead.Close()
	t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "5")
	r.configure(t, &telemetry.Config{Endpoint: dead.URL, Metrics: off})
	for i := range 10 {
		require.Equal(t, 200, r.send("m-"+string(rune('0'+i)), sampled))
		<-r.parents
	}
	require.NoError(t, r.collector.Shutdown(t.Context()))
	r.Close(t.Context()) // times out
	assert.Equal(t, 0, r.counts.get("traces sent"))
	assert.GreaterOrEqual(t, r.counts.get("traces dropped"), 1)
	assert.Equal(t, 30, r.counts.get("traces dropped")+r.counts.get("traces failed"))
	assert.Equal(t, 1, strings.Count(r.log.String(), "OTLP export incomplete"), r.log.String())
}

// The SDK panics for a size that is negative or does not fit in memory, and exports without pause
// after a negative delay.
func TestInvalidBatchSettings(t *testing.T) {
	r := newRig(t, prometheus.NewRegistry())
	for _, name := range []string{"OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "OTEL_BSP_SCHEDULE_DELAY", "OTEL_BSP_EXPORT_TIMEOUT"} {
		for _, value := range []string{"-1", "0", "9223372036854775807", "5000000000", "5s", "5\n", strings.Repeat("x", 300)} {
			t.Setenv(name, value)
			err := r.Configure(t.Context(), &telemetry.Config{Endpoint: "http://127.0.0.1:1", Metrics: off})
			require.ErrorContains(t, err, "telemetry.otlp: "+name+" is ", value)
			require.ErrorContains(t, err, ": use a whole number from 1 to ")
			require.Less(t, len(err.Error()), 300)
		}
		t.Setenv(name, "")
	}
}

func TestMetricsMatchPrometheus(t *testing.T) {
	registry := prometheus.NewRegistry()
	accepted := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "collector_calls_accepted_total", Help: "Calls."}, []string{"source"})
	latency := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "collector_delivery_latency_seconds", Buckets: []float64{1, 5}})
	queue := prometheus.NewGauge(prometheus.GaugeOpts{Name: "collector_queue_limit_bytes"})
	registry.MustRegister(accepted, latency, queue, prometheus.NewGauge(prometheus.GaugeOpts{Name: "go_goroutines"}), prometheus.NewGauge(prometheus.GaugeOpts{Name: "go_threads"}))
	accepted.WithLabelValues("web").Add(3)
	for _, v := range []float64{0.5, 2, 3, 9} {
		latency.Observe(v)
	}
	queue.Set(8)
	for protocol, newReceiver := range map[string]func(testing.TB) *receiver{telemetry.GRPC: overGRPC, telemetry.HTTP: overHTTP} {
		t.Run(protocol, func(t *testing.T) {
			receiver := newReceiver(t)
			r := newRig(t, registry)
			r.configure(t, &telemetry.Config{Endpoint: receiver.URL, Protocol: protocol, Traces: telemetry.Traces{Enabled: new(bool)}, Metrics: telemetry.Metrics{Interval: time.Hour}})
			r.Close(t.Context()) // exports the metrics
			some := func(*metricspb.Metric) bool { return true }
			sum := receiver.Metric(t, "collector.calls.accepted", some)
			assert.True(t, sum.GetSum().GetIsMonotonic())
			assert.Equal(t, "Calls.", sum.GetDescription())
			point := sum.GetSum().GetDataPoints()[0]
			assert.InDelta(t, 3, point.GetAsDouble(), 0)
			assert.Equal(t, map[string]any{"source": "web"}, values(point.GetAttributes()))
			assert.NotZero(t, point.GetStartTimeUnixNano())
			h := receiver.Metric(t, "collector.delivery.latency", some)
			assert.Equal(t, "s", h.GetUnit())
			bucket := h.GetHistogram().GetDataPoints()[0]
			assert.Equal(t, []float64{1, 5}, bucket.GetExplicitBounds())
			assert.Equal(t, []uint64{1, 2, 1}, bucket.GetBucketCounts())
			assert.InDelta(t, 14.5, bucket.GetSum(), 1e-9)
			assert.Equal(t, "By", receiver.Metric(t, "collector.queue.limit", some).GetUnit())
			assert.ElementsMatch(t, []string{"collector.calls.accepted", "collector.delivery.latency", "collector.queue.limit", "go.goroutine.count"}, receiver.Names())
		})
	}
}

func TestEnvironmentIsHonored(t *testing.T) {
	receiver := overHTTP(t)
	r := newRig(t, prometheus.NewRegistry())
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.URL)
	t.Setenv("OTEL_SERVICE_NAME", "analytics")
	t.Setenv("OTEL_TRACES_SAMPLER", "always_off")
	r.configure(t, &telemetry.Config{Metrics: off})
	require.Equal(t, 200, r.send("m-1", sampled))
	assert.Equal(t, sampled, <-r.parents, "the sampler says that nothing is recorded")
	t.Setenv("OTEL_TRACES_SAMPLER", "")
	r.configure(t, &telemetry.Config{Traces: telemetry.Traces{Ratio: new(float64)}, Metrics: off})
	require.Equal(t, 200, r.send("m-2", sampled))
	<-r.parents
	r.Close(t.Context())
	receiver.Spans(t, 2)
	assert.Equal(t, "analytics", receiver.Resource("service.name"))

	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
	require.ErrorContains(t, r.Configure(t.Context(), &telemetry.Config{}), `OTEL_EXPORTER_OTLP_PROTOCOL sets the unknown protocol "http/json": use grpc or http/protobuf`)
	t.Setenv("OTEL_SDK_DISABLED", "true")
	r.configure(t, &telemetry.Config{})
	require.Equal(t, 200, r.send("m-3", sampled))
	assert.Equal(t, sampled, <-r.parents)
}

// TestErrorTypeIsReasonOfAttempt checks that the span of an attempt names the same reason as the attempt.
func TestErrorTypeIsReasonOfAttempt(t *testing.T) {
	receiver := overHTTP(t)
	r := newRig(t, prometheus.NewRegistry())
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
	r.configure(t, &telemetry.Config{Endpoint: receiver.URL, Metrics: off})
	selfSigned := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(selfSigned.Close)
	selfSigned.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	require.NoError(t, r.collector.AddDestination(t.Context(), tracking.Destination{
		Name: "tls", Settings: webhook.Settings{Webhooks: []webhook.Endpoint{{URL: selfSigned.URL}}},
	}))
	require.Equal(t, http.StatusOK, r.send("m", sampled))
	spans := map[string][]*tracespb.Span{}
	for n := 1; len(spans["deliver tls"]) == 0; n++ {
		spans = receiver.Spans(t, n)
	}
	assert.Equal(t, string(webhook.ReasonSelfSigned), attributes(spans["deliver tls"][0])["error.type"])
}
