package main

import (
	"errors"
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

// TestFormsHaveTheSameSize checks that the forms are comparable.
func TestFormsHaveTheSameSize(t *testing.T) {
	for i := range variety {
		o := newOrder(i)
		want := callSize(t, "map", o)
		for _, name := range formNames {
			if got := callSize(t, name, o); got != want {
				t.Errorf("order %d: the call of %q has %d bytes, want %d", i, name, got, want)
			}
		}
	}
}

// callSize returns the number of bytes in a request with one call.
func callSize(t *testing.T, form string, o *order) int64 {
	t.Helper()
	var m measuring
	client, err := analytics.NewWithConfig("key", analytics.Config{HTTPClient: &http.Client{Transport: &m}})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(forms[form](client, o), client.Close()); err != nil {
		t.Fatal(err)
	}
	return m.size
}

// measuring is like takeAll, and adds up the sizes of the bodies.
type measuring struct {
	takeAll
	size int64
}

func (m *measuring) RoundTrip(r *http.Request) (*http.Response, error) {
	m.size += r.ContentLength
	return m.takeAll.RoundTrip(r)
}
