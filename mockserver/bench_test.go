package mockserver_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
)

// discard is a journal that keeps nothing.
type discard struct{ mockserver.Journal }

func (discard) Append(context.Context, mockserver.Batch) error { return nil }
func (discard) Close() error                                   { return nil }

// realisticBatch makes a body of n track calls of about 800 bytes each. Their
// messageIds hold the mark, which can be replaced to make them new.
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

// BenchmarkIngest measures the collector without the network and without a
// journal: the time is for a batch of 100 calls of 800 bytes.
func BenchmarkIngest(b *testing.B) {
	c, err := mockserver.NewCollector(mockserver.Config{Journal: discard{}, Sources: []mockserver.Source{{Name: "web", WriteKey: "key"}}})
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
}
