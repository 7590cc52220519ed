//go:build unix

package service

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/config"
)

// plannedEvents is the number of events in the plan.
const plannedEvents = 50

func benchPlan(b *testing.B) string {
	b.Helper()
	var text strings.Builder
	text.WriteString("plan: bench\ntrack:\n")
	for i := range plannedEvents {
		fmt.Fprintf(&text, `  Event %d:
    properties:
      orderId:  {type: string, required: true}
      total:    {type: number, minimum: 0, required: true}
      currency: {type: string, enum: [EUR, USD], required: true}
      coupon:   {type: string, maxLength: 20}
      gift:     {type: boolean}
      quantity: {type: integer, minimum: 1}
      email:    {type: string, format: email}
      items:    {type: array, items: {type: object, properties: {sku: {type: string}, quantity: {type: integer}}}}
    additionalProperties: false
`, i)
	}
	path := filepath.Join(b.TempDir(), "plan.yaml")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		b.Fatal(err)
	}
	return path
}

// BenchmarkIngestWithPlan sends batches of 100 calls alternately to a source without a plan and
// to a source with a plan of 50 events. For both sources it reports the CPU time of the process
// per call. It also reports the ratio of the two times.
func BenchmarkIngestWithPlan(b *testing.B) {
	const calls = 100
	path := filepath.Join(b.TempDir(), "collector.yaml")
	text := fmt.Sprintf("listen: 127.0.0.1:0\ndata: %s\nlimits: {queue: 64GiB, dedupCalls: 1000}\nsources: [{name: a, writeKey: a-bench-key}, {name: b, writeKey: b-bench-key, plan: %s}]\n", b.TempDir(), benchPlan(b))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	c, err := config.Load(path)
	if err != nil {
		b.Fatal(err)
	}
	s, err := Start(b.Context(), Options{Config: c, Log: discard()})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.shutdown() }()
	batch := func(key string, n int) string {
		var body strings.Builder
		body.WriteString(`{"batch":[`)
		for i := range calls {
			if i > 0 {
				body.WriteByte(',')
			}
			fmt.Fprintf(&body, `{"context":{"library":{"name":"analytics-go","version":"3.0.0"},"ip":"192.0.2.1"},"event":"Event %d","integrations":{},"messageId":"%s-%08d-0190b6c3-6c6e-%03d","originalTimestamp":"2026-11-22T20:00:00.000Z",`+
				`"properties":{"coupon":"WELCOME","currency":"EUR","email":"ada@shop.example","gift":true,"items":[{"quantity":2,"sku":"TEA-7"}],"orderId":"o-%d","quantity":2,"total":25.5},"timestamp":"2026-11-22T20:00:00.000Z","type":"track","userId":"user-%d"}`,
				i%plannedEvents, key, n, i, n, i)
		}
		body.WriteString(`],"sentAt":"2026-11-22T20:00:01.000Z"}`)
		return body.String()
	}
	post := func(key, body string) {
		r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/v1/batch", strings.NewReader(body))
		r.SetBasicAuth(key, "")
		w := httptest.NewRecorder()
		s.collector.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			text, _ := io.ReadAll(w.Body)
			b.Fatalf("%d: %s", w.Code, text)
		}
	}
	const turn = 20 // number of batches per source
	var cpu [2]time.Duration
	var ratios []float64
	n, posts := 0, 0
	for b.Loop() {
		var now [2]time.Duration
		for i := range 2 {
			at := (i + len(ratios)) % 2 // alternate the order of the sources
			key := []string{"a-bench-key", "b-bench-key"}[at]
			var bodies [turn]string
			for j := range bodies {
				n++
				bodies[j] = batch(key, n)
			}
			begin := cpuTime(b)
			for _, body := range bodies {
				post(key, body)
			}
			now[at] = cpuTime(b) - begin
			cpu[at] += now[at]
		}
		ratios = append(ratios, float64(now[1])/float64(now[0]))
		posts += turn
	}
	perCall := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / float64(posts*calls) }
	b.ReportMetric(perCall(cpu[0]), "cpu-ns/call-without")
	b.ReportMetric(perCall(cpu[1]), "cpu-ns/call-with")
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "median-ratio")
}

// cpuTime returns the CPU time of the process.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
