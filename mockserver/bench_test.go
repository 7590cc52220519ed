package mockserver_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// discard is a journal that stores nothing.
type discard struct{ journal.Journal }

func (discard) Append(context.Context, event.Batch) error { return nil }
func (discard) Close() error                              { return nil }

// realisticBatch returns a body with n track calls of about 800 bytes. Every messageId
// contains mark, so replacing mark makes all messageIds new.
func realisticBatch(n int, mark string) []byte {
	var b bytes.Buffer
	b.WriteString(`{"batch":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"anonymousId":"a0b1c2d3-%04d","context":{"app":{"build":"1042","name":"Shop","version":"3.14.0"},"device":{"model":"Pixel 9","type":"android"},"ip":"203.0.113.7","locale":"en-GB","os":{"name":"Android","version":"16"},"userAgent":"Mozilla/5.0 (Linux; Android 16; Pixel 9) AppleWebKit/537.36"},"event":"Order Completed","integrations":{"All":true},"messageId":"%s-%04d","properties":{"currency":"EUR","coupon":null,"discount":0.15,"list":"%s","order":%d,"products":[{"price":19.99,"quantity":2,"sku":"A-1"},{"price":5,"quantity":1,"sku":"B-7"}],"revenue":44.98,"shipping":4.9},"timestamp":"2026-01-31T12:34:56.789Z","type":"track","userId":"user-%04d"}`,
			i, mark, i, strings.Repeat("x", 230), i, i)
	}
	b.WriteString(`],"context":{"library":{"name":"analytics-go","version":"3.0.0"}},"messageId":"batch","sentAt":"2026-01-31T12:34:57.000Z"}`)
	return b.Bytes()
}

// BenchmarkIngest measures the collector without network and journal, with and without a
// redaction. One iteration processes a batch of 100 calls of 800 bytes.
func BenchmarkIngest(b *testing.B) {
	for name, redaction := range map[string]tracking.Redaction{
		"plain":    {},
		"redacted": {Remove: []string{"context.ip", "traits.email"}, Hash: []string{"userId"}, Mask: []string{"properties.products.*.sku"}},
	} {
		b.Run(name, func(b *testing.B) {
			c, err := engine.New(engine.Config{
				Journal: discard{}, Sources: []tracking.Source{{Name: "web", WriteKey: "key", Redact: redaction}}, RedactKey: []byte("key"),
			})
			if err != nil {
				b.Fatal(err)
			}
			const mark = "0198f0c0-0000-7000-8000-000000000000"
			body := realisticBatch(100, mark)
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				fresh := bytes.ReplaceAll(body, []byte(mark), fmt.Appendf(nil, "%036d", i))
				req := httptest.NewRequest(http.MethodPost, "/v1/batch", bytes.NewReader(fresh))
				req.SetBasicAuth("key", "")
				res := httptest.NewRecorder()
				c.ServeHTTP(res, req)
				if res.Code != http.StatusOK {
					b.Fatal(res.Body)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/call")
		})
	}
}

// BenchmarkDeliver measures delivery to a receiver on a socket, in batches of 100 calls
// of 1,000 users, in parallel, with batched requests, by a relay, and ordered. For comparison, it measures a plain
// client with the same number of requests in flight.
func BenchmarkDeliver(b *testing.B) {
	arrived := make(chan struct{}, 1000)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var body io.Reader = r.Body
		if r.Header.Get("Content-Encoding") != "" {
			body, _ = gzip.NewReader(r.Body)
		}
		text, _ := io.ReadAll(body)
		for range max(1, bytes.Count(text, []byte(`,"messageId":`))) { // only calls of a batch have one
			arrived <- struct{}{}
		}
	}))
	defer receiver.Close()
	body := realisticBatch(100, "m")
	perSecond := func(b *testing.B) { b.ReportMetric(100*float64(b.N)/b.Elapsed().Seconds(), "deliveries/s") }
	forward := func(b *testing.B, d tracking.Destination) {
		srv, err := mockserver.Run(mockserver.Config{InProcess: true, Destinations: []tracking.Destination{d}})
		if err != nil {
			b.Fatal(err)
		}
		defer srv.Close()
		ahead := 0
		for i := 0; b.Loop(); i++ {
			fresh := bytes.ReplaceAll(body, []byte(`"messageId":"m-`), fmt.Appendf(nil, `"messageId":"%d-`, i))
			fresh = bytes.ReplaceAll(fresh, []byte(`"userId":"user-`), fmt.Appendf(nil, `"userId":"user-%d`, i%10)) // 1,000 users
			if res := serve(srv.Engine(), http.MethodPost, "/v1/batch", string(fresh)); res.Code != http.StatusOK {
				b.Fatal(res.Body)
			}
			for ahead += 100; ahead > 400; ahead-- {
				<-arrived
			}
		}
		for ; ahead > 0; ahead-- {
			<-arrived
		}
		perSecond(b)
	}
	single := hook("d", receiver.URL)
	single.SharedSecret = "s3cret"
	batched, ordered := single, single
	batched.Batch.Calls, ordered.Order = 100, tracking.OrderUser
	b.Run("forwarder", func(b *testing.B) { forward(b, single) })
	b.Run("batches of 100", func(b *testing.B) { forward(b, batched) })
	b.Run("relay", func(b *testing.B) { forward(b, relayTo(receiver.URL)) })
	b.Run("in order", func(b *testing.B) { forward(b, ordered) })
	b.Run("bare client", func(b *testing.B) {
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: engine.DefaultConcurrency}}
		call := string(body[len(`{"batch":[`):800])
		jobs := make(chan struct{})
		var senders sync.WaitGroup
		for range engine.DefaultConcurrency {
			senders.Go(func() {
				for range jobs {
					res, err := client.Post(receiver.URL, "application/json", strings.NewReader(call))
					if err != nil {
						b.Error(err)
						continue
					}
					_, _ = io.Copy(io.Discard, res.Body)
					_ = res.Body.Close()
					<-arrived
				}
			})
		}
		for b.Loop() {
			for range 100 {
				jobs <- struct{}{}
			}
		}
		close(jobs)
		senders.Wait()
		perSecond(b)
	})
}
