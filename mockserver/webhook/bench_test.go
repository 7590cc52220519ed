package webhook

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// BenchmarkDelivery compares a whole delivery, from the stored call to the
// record of the attempt, with a bare http.Client that posts the same bytes to
// the same server.
func BenchmarkDelivery(b *testing.B) {
	r := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, `{"success":true}`)
	}))
	defer r.Close()
	endpoint := Endpoint{URL: r.URL + "/hook", Headers: map[string]string{"Authorization": "Bearer token"}}

	b.Run("bare", func(b *testing.B) {
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: maxIdlePerHost}, Timeout: Timeout}
		defer client.CloseIdleConnections()
		body, err := Payload(benchmarkCall, "")
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
		s, err := NewSender(SenderConfig{Policy: Policy{AllowLoopback: true}})
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		b.ReportAllocs()
		b.SetParallelism(8)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				body, err := Payload(benchmarkCall, "")
				if err != nil {
					b.Error(err)
					return
				}
				a := s.Send(b.Context(), Request{Endpoint: endpoint, Body: body, Signature: Sign("secret", body), MessageID: "m", Number: 1})
				if a.Verdict != Success {
					b.Error(a.Error)
					return
				}
			}
		})
	})
}
