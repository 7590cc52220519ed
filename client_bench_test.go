package analytics

import (
	"fmt"
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

// smallTrack makes a call of about 210 bytes as JSON.
func smallTrack() *Track {
	return &Track{
		Event:      "Signed In",
		UserId:     "019mr8mf4r",
		Properties: map[string]interface{}{"plan": "Enterprise", "seats": 25, "trial": false},
	}
}

// mediumTrack makes a call of about 360 bytes as JSON.
func mediumTrack() *Track {
	return &Track{
		Event:  "Order Completed",
		UserId: "019mr8mf4r",
		Properties: map[string]interface{}{
			"order_id": "50314b8e9bcf000000000000", "affiliation": "Main Store", "revenue": 25.5, "tax": 2.25,
			"currency": "USD", "coupon": "hasbros", "quantity": 3, "first_order": true,
		},
	}
}

// largeTrack makes a call of about 640 bytes as JSON.
func largeTrack() *Track {
	m := mediumTrack()
	m.Context = map[string]interface{}{
		"ip":        "203.0.113.24",
		"locale":    "en-US",
		"userAgent": "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7)",
		"app":       map[string]interface{}{"name": "Storefront", "version": "4.12.0"},
		"page":      map[string]interface{}{"path": "/checkout/thanks", "title": "Thank you"},
	}
	m.Integrations = map[string]interface{}{"All": true, "Mixpanel": false}
	return m
}

var benchCalls = map[string]*Track{"S": smallTrack(), "M": mediumTrack(), "L": largeTrack()}

// BenchmarkTrack is what a call costs its caller, and the pipeline up to the
// request.
func BenchmarkTrack(b *testing.B) {
	for name, call := range benchCalls {
		b.Run(name, func(b *testing.B) { benchmarkTrack(b, call, Config{FlushAt: 640}) })
	}
}

// BenchmarkTrackSpooled is BenchmarkTrack with each call in a file before it
// returns.
func BenchmarkTrackSpooled(b *testing.B) {
	for name, call := range benchCalls {
		b.Run(name, func(b *testing.B) { benchmarkTrack(b, call, Config{FlushAt: 640, Spool: b.TempDir()}) })
	}
}

// BenchmarkUpload is what a call costs in a batch that a server on the loopback
// interface takes.
func BenchmarkUpload(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	defer server.Close()
	for _, c := range []struct {
		name    string
		flushAt int
	}{{"S", 100}, {"L", 20}, {"L", 100}, {"L", 640}} {
		b.Run(fmt.Sprintf("%s in batches of %d", c.name, c.flushAt), func(b *testing.B) {
			benchmarkTrack(b, benchCalls[c.name], Config{FlushAt: c.flushAt, Endpoint: server.URL, HTTPClient: &http.Client{}})
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
