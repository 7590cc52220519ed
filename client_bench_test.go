package analytics

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"testing"
)

// taker is a transport that takes every batch at once.
type taker struct{}

func (taker) RoundTrip(r *http.Request) (*http.Response, error) {
	httptrace.ContextClientTrace(r.Context()).WroteRequest(httptrace.WroteRequestInfo{})
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(""))}, nil
}

// benchCalls are the calls that are measured, by size.
func benchCalls() map[string]*Track {
	calls := map[string]*Track{}
	for name, c := range map[string]testCall{"S": smallCall(), "L": largeCall()} {
		calls[name] = &Track{UserId: c.UserId, Event: c.Event, Properties: c.Properties, Context: c.Context, Integrations: c.Integrations}
	}
	c := largeCall()
	calls["M"] = &Track{UserId: c.UserId, Event: c.Event, Properties: c.Properties}
	return calls
}

// BenchmarkTrack is what a call costs its caller, and the pipeline up to the
// request.
func BenchmarkTrack(b *testing.B) {
	for name, call := range benchCalls() {
		b.Run(name, func(b *testing.B) { benchmarkTrack(b, call, Config{FlushAt: 640}) })
	}
}

// BenchmarkTrackSpooled is BenchmarkTrack with each call in a file before it
// returns.
func BenchmarkTrackSpooled(b *testing.B) {
	for name, call := range benchCalls() {
		b.Run(name, func(b *testing.B) { benchmarkTrack(b, call, Config{FlushAt: 640, Spool: b.TempDir()}) })
	}
}

// BenchmarkUpload is what a call costs in a batch of 100 that a server on the
// loopback interface takes.
func BenchmarkUpload(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	defer server.Close()
	for _, name := range []string{"S", "L"} {
		call := benchCalls()[name]
		b.Run(name, func(b *testing.B) {
			benchmarkTrack(b, call, Config{FlushAt: 100, Endpoint: server.URL, HTTPClient: &http.Client{}})
		})
	}
}

func benchmarkTrack(b *testing.B, call *Track, cfg Config) {
	cfg.WhenFull = Block
	if cfg.HTTPClient == nil {
		cfg.HTTPClient = &http.Client{Transport: taker{}}
	}
	client, err := NewWithConfig("key", cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := client.Track(call); err != nil {
				b.Error(err)
				return
			}
		}
	})
	if err := client.Close(); err != nil {
		b.Fatal(err)
	}
}
