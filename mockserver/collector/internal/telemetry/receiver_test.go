package telemetry_test

import (
	"compress/gzip"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortraces "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	traces "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	grpcmetadata "google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// patience limits the wait for expected data.
const patience = time.Minute

// A receiver is an OpenTelemetry receiver. It records the spans and metrics it receives.
type receiver struct {
	collectortraces.UnimplementedTraceServiceServer
	URL string // endpoint of the receiver

	mu       sync.Mutex // guards the fields below
	spans    []*traces.Span
	metrics  map[string]*metrics.Metric // latest metric of each name
	resource map[string]string          // resource attributes of the spans
	tokens   []string                   // Authorization header of each export
	changed  chan struct{}              // closed and replaced at each change
}

// metricsServer implements the metrics service. It is a separate type because both services have
// a method named Export.
type metricsServer struct {
	collectormetrics.UnimplementedMetricsServiceServer
	*receiver
}

func newReceiver() *receiver {
	return &receiver{metrics: map[string]*metrics.Metric{}, resource: map[string]string{}, changed: make(chan struct{})}
}

// overGRPC starts a receiver over gRPC.
func overGRPC(t testing.TB) *receiver {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := newReceiver()
	r.URL = "http://" + listener.Addr().String()
	server := grpc.NewServer()
	collectortraces.RegisterTraceServiceServer(server, r)
	collectormetrics.RegisterMetricsServiceServer(server, metricsServer{receiver: r})
	go func() { _ = server.Serve(listener) }() // runs until the server is stopped
	t.Cleanup(server.Stop)
	return r
}

// overHTTP starts a receiver over HTTP.
func overHTTP(t testing.TB) *receiver {
	r := newReceiver()
	exports := http.NewServeMux()
	exports.HandleFunc("/v1/traces", handler(r.takeSpans))
	exports.HandleFunc("/v1/metrics", handler(r.takeMetrics))
	server := httptest.NewServer(exports)
	t.Cleanup(server.Close)
	r.URL = server.URL
	return r
}

// handler returns a handler for exports of type T.
func handler[T any, Export interface {
	*T
	proto.Message
}](take func(in Export, token string)) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		in := Export(new(T))
		body, err := readAll(req)
		if err == nil {
			err = proto.Unmarshal(body, in)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		take(in, req.Header.Get("Authorization"))
		w.Header().Set("Content-Type", "application/x-protobuf") // the response is an empty message, which has no bytes
	}
}

func readAll(req *http.Request) ([]byte, error) {
	var body io.Reader = req.Body
	if req.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(req.Body)
		if err != nil {
			return nil, err
		}
		body = unzipped
	}
	return io.ReadAll(body)
}

// Export implements the trace service.
func (r *receiver) Export(ctx context.Context, in *collectortraces.ExportTraceServiceRequest) (*collectortraces.ExportTraceServiceResponse, error) {
	r.takeSpans(in, tokenOf(ctx))
	return &collectortraces.ExportTraceServiceResponse{}, nil
}

// Export implements the metrics service.
func (m metricsServer) Export(ctx context.Context, in *collectormetrics.ExportMetricsServiceRequest) (*collectormetrics.ExportMetricsServiceResponse, error) {
	m.takeMetrics(in, tokenOf(ctx))
	return &collectormetrics.ExportMetricsServiceResponse{}, nil
}

func tokenOf(ctx context.Context) string {
	md, _ := grpcmetadata.FromIncomingContext(ctx)
	for _, token := range md.Get("authorization") {
		return token
	}
	return ""
}

func (r *receiver) takeSpans(in *collectortraces.ExportTraceServiceRequest, token string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tokens = append(r.tokens, token)
	for _, rs := range in.GetResourceSpans() {
		for _, a := range rs.GetResource().GetAttributes() {
			r.resource[a.GetKey()] = a.GetValue().GetStringValue()
		}
		for _, ss := range rs.GetScopeSpans() {
			r.spans = append(r.spans, ss.GetSpans()...)
		}
	}
	r.wake()
}

func (r *receiver) takeMetrics(in *collectormetrics.ExportMetricsServiceRequest, token string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tokens = append(r.tokens, token)
	for _, rm := range in.GetResourceMetrics() {
		for _, sm := range rm.GetScopeMetrics() {
			for _, m := range sm.GetMetrics() {
				r.metrics[m.GetName()] = m
			}
		}
	}
	r.wake()
}

// wake wakes waiting goroutines. The caller holds the lock.
func (r *receiver) wake() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// wait waits until a condition is true. The condition is called with the lock held.
func (r *receiver) wait(t testing.TB, what string, met func() bool) {
	t.Helper()
	limit := time.After(patience)
	for {
		r.mu.Lock()
		done, changed := met(), r.changed
		r.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-limit:
			t.Fatalf("%s did not come in %v", what, patience)
		}
	}
}

// Spans waits for n spans and returns all received spans by name.
func (r *receiver) Spans(t testing.TB, n int) map[string][]*traces.Span {
	t.Helper()
	r.wait(t, "spans", func() bool { return len(r.spans) >= n })
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[string][]*traces.Span{}
	for _, s := range r.spans {
		all[s.GetName()] = append(all[s.GetName()], s)
	}
	return all
}

// Metric waits until as returns true for a metric with the name, and returns this metric.
func (r *receiver) Metric(t testing.TB, name string, as func(*metrics.Metric) bool) (m *metrics.Metric) {
	t.Helper()
	r.wait(t, "the metric "+name, func() bool {
		m = r.metrics[name]
		return m != nil && as(m)
	})
	return m
}

// Names returns the names of the received metrics.
func (r *receiver) Names() (names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name := range r.metrics {
		names = append(names, name)
	}
	return names
}

// Resource returns an attribute of the resource of the spans.
func (r *receiver) Resource(key string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.resource[key]
}

// Tokens returns the Authorization headers of all exports.
func (r *receiver) Tokens() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.tokens...)
}
