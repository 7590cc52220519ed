package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"

	analytics "github.com/seed-45eadc4a/analytics-go"
)

// takeAll is a transport that accepts every batch immediately.
type takeAll struct{}

func (takeAll) RoundTrip(r *http.Request) (*http.Response, error) {
	httptrace.ContextClientTrace(r.Context()).WroteRequest(httptrace.WroteRequestInfo{}) // report that the body has been read
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(""))}, nil
}

// BenchmarkForms measures the CPU time of a call for each way to write a call. It measures them in
// turn and does not use a network.
func BenchmarkForms(b *testing.B) {
	all := orders()
	cpu := map[string]time.Duration{}
	for i := 0; i < b.N; i++ {
		for _, name := range formNames {
			client, err := analytics.NewWithConfig("key", analytics.Config{FlushAt: 640, WhenFull: analytics.Block, HTTPClient: &http.Client{Transport: takeAll{}}})
			if err != nil {
				b.Fatal(err)
			}
			call := forms[name]
			before, _, _ := usage()
			for i := range 100_000 {
				if err := call(client, all[i%variety]); err != nil {
					b.Fatal(err)
				}
			}
			after, _, _ := usage()
			cpu[name] += after - before
			if err := client.Close(); err != nil {
				b.Fatal(err)
			}
		}
	}
	for _, name := range formNames {
		b.ReportMetric(float64(cpu[name].Nanoseconds())/float64(b.N)/1e5, fmt.Sprintf("ns/%s", name))
		b.ReportMetric(cpu[name].Seconds()/cpu["map"].Seconds(), fmt.Sprintf("of-map/%s", name))
	}
}
