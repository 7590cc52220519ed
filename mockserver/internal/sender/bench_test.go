package sender

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

var benchmarkCall = []byte(`{"type":"track","userId":"019mr8mf4r","event":"Order Completed","messageId":"0192f0f4-7b0c-7000-8000-000000000001","properties":{"order_id":"50314b8e9bcf000000000000","total":27.5,"currency":"USD","coupon":"hasbros","step":3,"returning":true,"products":[{"sku":"45790-32","name":"Monopoly: 3rd Edition","price":19},{"sku":"46493-32","name":"Uno Card Game","price":3.25}],"note":"café, für alle"},"context":{"ip":"203.0.113.7","library":{"name":"analytics-go","version":"3.0.0"},"userAgent":"Mozilla/5.0 (X11; Linux x86_64)"},"integrations":{"All":true,"Webhooks":true},"timestamp":"2024-05-17T10:20:30.123Z","sentAt":"2024-05-17T10:20:30.500Z"}`)

// BenchmarkDelivery measures a delivery, from the stored call to the attempt. For comparison, it
// measures an http.Client that posts the same bytes to the same server.
func BenchmarkDelivery(b *testing.B) {
	r := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, `{"success":true}`)
	}))
	defer r.Close()
	endpoint := webhook.Endpoint{URL: r.URL + "/hook", Headers: map[string]string{"Authorization": "Bearer token"}}

	b.Run("bare", func(b *testing.B) {
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: maxIdlePerHost}, Timeout: webhook.Timeout}
		defer client.CloseIdleConnections()
		body, err := webhook.Payload(benchmarkCall, "")
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		b.SetParallelism(8)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				resp, err := client.Post(endpoint.URL, "application/json", bytes.NewReader(body))
				if err != nil {
					b.Error(err)
					return
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	})
	b.Run("delivery", func(b *testing.B) {
		s, err := New(webhook.SenderConfig{Policy: webhook.Policy{AllowLoopback: true}}, nil)
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		b.ReportAllocs()
		b.SetParallelism(8)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				body, err := webhook.Payload(benchmarkCall, "")
				if err != nil {
					b.Error(err)
					return
				}
				a := s.Send(b.Context(), Request{Endpoint: endpoint, Body: body, Signature: webhook.Sign("secret", body), MessageID: "m", Number: 1})
				if a.Verdict != webhook.Success {
					b.Error(a.Error)
					return
				}
			}
		})
	})
}

// BenchmarkRelay measures a call of a batch of 100, from the stored call to the compressed body.
func BenchmarkRelay(b *testing.B) {
	settings := &webhook.Settings{Type: webhook.TypeRelay, WriteKey: "key"}
	elements := make([]Request, 100)
	size := 0
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		var err error
		if elements[n%100], err = NewElement(settings, Content{ID: "m", Body: benchmarkCall, Number: 1}); err != nil {
			b.Fatal(err)
		}
		if n%100 == 99 {
			r, err := newBatchRequest(formatOf(settings), elements, time.Time{})
			if err != nil {
				b.Fatal(err)
			}
			size = len(compress(r.Body))
		}
	}
	b.ReportMetric(float64(size)/100, "sent-B/op")
}
