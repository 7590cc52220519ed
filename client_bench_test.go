package analytics

import (
	"io"
	"net/http"
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

// BenchmarkTrack is what a call costs its caller, and the pipeline up to the
// request.
func BenchmarkTrack(b *testing.B) {
	for name, c := range map[string]testCall{"S": smallCall(), "L": largeCall()} {
		b.Run(name, func(b *testing.B) {
			client, err := NewWithConfig("key", Config{FlushAt: 640, WhenFull: Block, HTTPClient: &http.Client{Transport: taker{}}})
			if err != nil {
				b.Fatal(err)
			}
			track := &Track{UserId: c.UserId, Event: c.Event, Properties: c.Properties, Context: c.Context, Integrations: c.Integrations}
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := client.Track(track); err != nil {
						b.Error(err)
						return
					}
				}
			})
			if err := client.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}
