package otelanalytics

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed-45eadc4a/analytics-go"
	"github.com/seed-45eadc4a/analytics-go/internal/leaks"
	"github.com/seed-45eadc4a/analytics-go/mockserver"
)

// telemetry collects metrics and spans in memory.
type telemetry struct {
	reader  *sdkmetric.ManualReader
	meters  *sdkmetric.MeterProvider
	spans   *tracetest.InMemoryExporter
	tracers *sdktrace.TracerProvider
}

func newTelemetry(t testing.TB) *telemetry {
	o := &telemetry{reader: sdkmetric.NewManualReader(), spans: tracetest.NewInMemoryExporter()}
	o.meters = sdkmetric.NewMeterProvider(sdkmetric.WithReader(o.reader))
	o.tracers = sdktrace.NewTracerProvider(sdktrace.WithSyncer(o.spans))
	t.Cleanup(func() {
		require.NoError(t, o.meters.Shutdown(context.Background()))
		require.NoError(t, o.tracers.Shutdown(context.Background()))
	})
	return o
}

func (o *telemetry) options(more ...Option) []Option {
	return append([]Option{WithMeterProvider(o.meters), WithTracerProvider(o.tracers), WithPropagator(propagation.TraceContext{})}, more...)
}

// client returns a client that reports its telemetry to o.
func (o *telemetry) client(t testing.TB, cfg analytics.Config, more ...Option) *analytics.Client {
	cfg, err := Configure(cfg, o.options(more...)...)
	require.NoError(t, err)
	cfg.Slog = slog.New(slog.DiscardHandler)
	client, err := analytics.NewWithConfig("write-key-0123456789", cfg)
	require.NoError(t, err)
	return client
}

// requests returns the finished spans of kind client.
func (o *telemetry) requests() (requests []tracetest.SpanStub) {
	for _, s := range o.spans.GetSpans() {
		if s.SpanKind == trace.SpanKindClient {
			requests = append(requests, s)
		}
	}
	return requests
}

// collect returns the sums, keyed by name and error.type, and all metrics, keyed by name.
func (o *telemetry) collect(t testing.TB) (sums map[string]int64, all map[string]metricdata.Metrics) {
	var data metricdata.ResourceMetrics
	require.NoError(t, o.reader.Collect(t.Context(), &data))
	sums, all = map[string]int64{}, map[string]metricdata.Metrics{}
	for _, in := range data.ScopeMetrics {
		require.Equal(t, scope, in.Scope.Name)
		require.Equal(t, analytics.Version, in.Scope.Version)
		for _, m := range in.Metrics {
			all[m.Name] = m
			if sum, ok := m.Data.(metricdata.Sum[int64]); ok {
				for _, p := range sum.DataPoints {
					kind, _ := p.Attributes.Value("error.type")
					sums[strings.TrimSuffix(m.Name+" "+kind.AsString(), " ")] += p.Value
				}
			}
		}
	}
	return sums, all
}

// roundTrip is a function that implements http.RoundTripper.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answering returns an HTTP client that responds with the given statuses in order, and then with
// 200. For status 0 it returns an error instead of a response.
func answering(statuses ...int) *http.Client {
	var mu sync.Mutex
	return &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		_, _ = io.Copy(io.Discard, r.Body)
		mu.Lock()
		defer mu.Unlock()
		status := 200
		if len(statuses) > 0 {
			status, statuses = statuses[0], statuses[1:]
		}
		if status == 0 {
			return nil, io.ErrUnexpectedEOF
		}
		return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
	})}
}

func track(t testing.TB, ctx context.Context, client *analytics.Client) {
	require.NoError(t, client.Enqueue(ctx, &analytics.Track{Event: "e", UserId: "u"}))
}

// The span of a request starts a new trace and has one link for each span that made a call. The
// request headers contain its span context.
func TestRequestSpanLinksCalls(t *testing.T) {
	var parents []string
	srv := mockserver.RunT(t)
	o := newTelemetry(t)
	client := o.client(t, analytics.Config{
		Endpoint: srv.URL,
		WrapTransport: func(base http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				parents = append(parents, r.Header.Get("traceparent"))
				return base.RoundTrip(r)
			})
		},
	}, WithAttributes(attribute.String("source", "web")))
	tracer := o.tracers.Tracer("program")
	first, a := tracer.Start(t.Context(), "first")
	second, b := tracer.Start(t.Context(), "second")
	unsampled := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}}))
	for _, ctx := range []context.Context{first, second, first, unsampled, t.Context()} {
		track(t, ctx, client)
	}
	a.End()
	b.End()
	require.NoError(t, client.Close())

	requests := o.requests()
	require.Len(t, requests, 1)
	got := requests[0]
	require.Equal(t, "POST /v1/batch", got.Name)
	require.False(t, got.Parent.IsValid())
	require.Equal(t, codes.Unset, got.Status.Code)
	require.Equal(t, []string{"00-" + got.SpanContext.TraceID().String() + "-" + got.SpanContext.SpanID().String() + "-01"}, parents)
	var linked []trace.SpanID
	for _, link := range got.Links {
		linked = append(linked, link.SpanContext.SpanID())
	}
	require.Equal(t, []trace.SpanID{a.SpanContext().SpanID(), b.SpanContext().SpanID()}, linked)

	set := attribute.NewSet(got.Attributes...)
	for key, want := range map[attribute.Key]any{
		"http.request.method": "POST", "http.response.status_code": int64(200), "url.scheme": "http",
		"url.full": srv.URL + "/v1/batch", "server.address": "127.0.0.1", "messaging.batch.message_count": int64(5), "source": "web",
	} {
		value, ok := set.Value(key)
		require.True(t, ok, key)
		require.Equal(t, want, value.AsInterface(), key)
	}
	size, _ := set.Value("http.request.body.size")
	require.Greater(t, size.AsInt64(), int64(500))
	require.False(t, set.HasValue("error.type"))
}

// The URL of the request for the source's settings contains the write key, so this request is
// neither traced nor measured.
func TestSettingsRequestIsNotTraced(t *testing.T) {
	srv := mockserver.RunT(t)
	o := newTelemetry(t)
	client := o.client(t, analytics.Config{Endpoint: srv.URL, SettingsEndpoint: srv.URL})
	track(t, t.Context(), client)
	require.NoError(t, client.Close())
	requests := o.requests()
	require.Len(t, requests, 1)
	require.Equal(t, "POST /v1/batch", requests[0].Name)
	_, all := o.collect(t)
	points := all["http.client.request.duration"].Data.(metricdata.Histogram[float64]).DataPoints
	require.Len(t, points, 1)
	require.EqualValues(t, 1, points[0].Count)
}

// Each attempt has its own span and is measured.
func TestFailedRequests(t *testing.T) {
	for _, tt := range []struct {
		name     string
		statuses []int
		kinds    []string // error.type of each attempt; "" if there is none
	}{
		{"taken", nil, []string{""}},
		{"retried", []int{503, 0}, []string{"503", "*errors.errorString", ""}},
		{"redirected", []int{302}, []string{"302"}},
		{"refused", []int{401}, []string{"401"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := newTelemetry(t)
			client := o.client(t, analytics.Config{HTTPClient: answering(tt.statuses...), Endpoint: "https://user:secret@collector.example/p?token=secret"})
			track(t, t.Context(), client)
			_ = client.Close()

			var kinds []string
			for _, span := range o.requests() {
				set := attribute.NewSet(span.Attributes...)
				kind, failed := set.Value("error.type")
				kinds = append(kinds, kind.AsString())
				require.Equal(t, failed, span.Status.Code == codes.Error)
				full, _ := set.Value("url.full")
				require.Equal(t, "https://collector.example/p/v1/batch", full.AsString())
				port, _ := set.Value("server.port")
				require.EqualValues(t, 443, port.AsInt64())
			}
			require.Equal(t, tt.kinds, kinds)

			_, all := o.collect(t)
			durations := all["http.client.request.duration"]
			require.Equal(t, "s", durations.Unit)
			points := durations.Data.(metricdata.Histogram[float64]).DataPoints
			kinds = nil
			for _, p := range points {
				require.EqualValues(t, 1, p.Count)
				require.Equal(t, buckets, p.Bounds)
				kind, _ := p.Attributes.Value("error.type")
				kinds = append(kinds, kind.AsString())
				require.False(t, p.Attributes.HasValue("url.full"), "each URL would be a series")
			}
			require.ElementsMatch(t, tt.kinds, kinds)
		})
	}
}

// The resend count of a span comes from the header that the client sets.
func TestResendCount(t *testing.T) {
	for header, want := range map[string]int64{"": 0, "0": 0, "3": 3, "x": 0} {
		r, err := http.NewRequest(http.MethodPost, "http://collector/v1/batch", nil)
		require.NoError(t, err)
		r.Header.Set("X-Retry-Count", header)
		set := attribute.NewSet(spanAttributes(r, 0)...)
		n, ok := set.Value("http.request.resend_count")
		require.Equal(t, want > 0, ok)
		if ok {
			require.Equal(t, want, n.AsInt64())
		}
	}
}

// Configure does not replace Value, and links the spans that it returns.
func TestConfigureKeepsValue(t *testing.T) {
	s := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled})
	ctx := trace.ContextWithSpanContext(t.Context(), s)
	for name, value := range map[string]func(context.Context) interface{}{
		"a span context": SpanContext,
		"a context":      func(ctx context.Context) interface{} { return ctx },
		"a span":         func(ctx context.Context) interface{} { return trace.SpanFromContext(ctx) },
		"something else": func(context.Context) interface{} { return 5 },
	} {
		t.Run(name, func(t *testing.T) {
			o := newTelemetry(t)
			var got []interface{}
			client := o.client(t, analytics.Config{HTTPClient: answering(), Value: value, Callback: func(r analytics.Result) { got = append(got, r.Value) }})
			track(t, ctx, client)
			require.NoError(t, client.Close())
			require.Equal(t, []interface{}{value(ctx)}, got)
			links := o.requests()[0].Links
			require.Equal(t, name != "something else", len(links) == 1 && links[0].SpanContext.Equal(s))
		})
	}
}

func TestConfigureNilTransport(t *testing.T) {
	o := newTelemetry(t)
	client := o.client(t, analytics.Config{WrapTransport: func(http.RoundTripper) http.RoundTripper { return nil }})
	require.ErrorContains(t, client.Track(&analytics.Track{Event: "e", UserId: "u"}), "Config.WrapTransport returned nil")
}

// counted is a StatsSource that returns constant counts.
type counted analytics.Stats

func (c *counted) Stats() analytics.Stats { return analytics.Stats(*c) }

// Each field of Stats is reported as a metric.
func TestObserveReportsAllStats(t *testing.T) {
	var c counted
	var next int64
	var fill func(v reflect.Value)
	var want []int64
	fill = func(v reflect.Value) {
		for i := range v.NumField() {
			if f := v.Field(i); f.Kind() == reflect.Struct {
				fill(f)
			} else {
				next++
				f.SetInt(next)
				want = append(want, next)
			}
		}
	}
	fill(reflect.ValueOf(&c).Elem())
	o := newTelemetry(t)
	registration, err := Observe(&c, o.options(WithAttributes(attribute.String("source", "web")))...)
	require.NoError(t, err)
	sums, all := o.collect(t)
	var got []int64
	for _, n := range sums {
		got = append(got, n)
	}
	slices.Sort(got)
	require.Equal(t, want, got, "%v", sums)
	require.Equal(t, c.Dropped.Overflow, sums["analytics.client.call.dropped overflow"])
	require.Equal(t, c.Rejected.QueueFull, sums["analytics.client.call.rejected queue_full"])
	for name, m := range all {
		sum := m.Data.(metricdata.Sum[int64])
		require.Equal(t, !slices.Contains([]string{"analytics.client.call.pending", "analytics.client.memory.usage", "analytics.client.spool.usage"}, name), sum.IsMonotonic, name)
		require.NotEmpty(t, m.Unit, name)
		require.NotEmpty(t, m.Description, name)
		source, _ := sum.DataPoints[0].Attributes.Value("source")
		require.Equal(t, "web", source.AsString())
	}

	require.NoError(t, registration.Unregister())
	sums, _ = o.collect(t)
	require.Empty(t, sums)
}

// At each collection during concurrent calls, the counts add up. No goroutine remains after the
// test.
func TestClientConcurrentSafe(t *testing.T) {
	srv := mockserver.RunT(t)
	leaks.Check(t)
	o := newTelemetry(t)
	client := o.client(t, analytics.Config{Endpoint: srv.URL, FlushAt: 10})
	_, err := Observe(client, o.options()...)
	require.NoError(t, err)
	const callers, calls = 8, 100
	var group, collecting sync.WaitGroup
	stop := make(chan struct{})
	collecting.Go(func() {
		for {
			requireAccount(t, o)
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	for range callers {
		group.Go(func() {
			for range calls {
				ctx, span := o.tracers.Tracer("program").Start(t.Context(), "call")
				track(t, ctx, client)
				span.End()
			}
		})
	}
	group.Wait()
	require.NoError(t, client.Close())
	close(stop)
	collecting.Wait()
	sums := requireAccount(t, o)
	require.EqualValues(t, callers*calls, sums["analytics.client.call.delivered"])
	links := 0
	for _, request := range o.requests() {
		links += len(request.Links)
	}
	require.Equal(t, callers*calls, links, "each call has its own span")
	require.Len(t, o.requests(), int(sums["analytics.client.request.made"]))
}

// Shutdown with a context that is already done leaves no goroutines or connections.
func TestShutdownReleasesResources(t *testing.T) {
	srv := mockserver.RunT(t)
	leaks.Check(t)
	o := newTelemetry(t)
	hanging := make(chan struct{}, 1)
	srv.Fail(mockserver.Fault{Hang: true, Match: func(*http.Request) bool {
		hanging <- struct{}{}
		return true
	}})
	client := o.client(t, analytics.Config{Endpoint: srv.URL, FlushAt: 1})
	registration, err := Observe(client, o.options()...)
	require.NoError(t, err)
	ctx, span := o.tracers.Tracer("program").Start(t.Context(), "call")
	track(t, ctx, client)
	span.End()
	<-hanging
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, client.Shutdown(ended))
	require.NoError(t, registration.Unregister())
}

// requireAccount collects metrics and checks that the counts add up.
func requireAccount(t testing.TB, o *telemetry) map[string]int64 {
	sums, _ := o.collect(t)
	var dropped int64
	for name, n := range sums {
		if strings.HasPrefix(name, "analytics.client.call.dropped ") {
			dropped += n
		}
	}
	require.Equal(t, sums["analytics.client.call.accepted"], sums["analytics.client.call.delivered"]+dropped+sums["analytics.client.call.pending"], "%v", sums)
	return sums
}

// Configure and Observe return the errors of the meter provider.
func TestMeterProviderErrors(t *testing.T) {
	_, err := Observe(&counted{}, WithMeterProvider(refusing{}))
	require.ErrorIs(t, err, errRefused)
	_, err = Configure(analytics.Config{}, WithMeterProvider(refusing{}))
	require.ErrorIs(t, err, errRefused)
}

var errRefused = errors.New("no such instrument")
