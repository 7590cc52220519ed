package analytics

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"testing"
)

// taker is a transport that accepts each batch immediately.
type taker struct{}

func (taker) RoundTrip(r *http.Request) (*http.Response, error) {
	httptrace.ContextClientTrace(r.Context()).WroteRequest(httptrace.WroteRequestInfo{})
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(""))}, nil
}

// smallTrack returns a call of about 210 bytes as JSON.
func smallTrack() *Track {
	return &Track{
		Event:      "Signed In",
		UserId:     "019mr8mf4r",
		Properties: map[string]interface{}{"plan": "Enterprise", "seats": 25, "trial": false},
	}
}

// mediumTrack returns a call of about 360 bytes as JSON.
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

// largeTrack returns a call of about 640 bytes as JSON.
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

// BenchmarkTrack measures Track and the pipeline's work up to the request.
func BenchmarkTrack(b *testing.B) {
	for name, call := range benchCalls {
		b.Run(name, func(b *testing.B) { benchmarkTrack(b, call, Config{FlushAt: 640}) })
	}
}

// BenchmarkTrackSpooled is BenchmarkTrack with a spool.
func BenchmarkTrackSpooled(b *testing.B) {
	for name, call := range benchCalls {
		b.Run(name, func(b *testing.B) { benchmarkTrack(b, call, Config{FlushAt: 640, Spool: b.TempDir()}) })
	}
}

// BenchmarkUpload measures a call and its share of the upload to a loopback server.
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
	benchmarkCalls(b, cfg, func(c *Client, _ int) error { return c.Track(call) })
}

func benchmarkCalls(b *testing.B, cfg Config, track func(c *Client, i int) error) {
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
		for i := 0; pb.Next(); i++ {
			if err := track(client, i); err != nil {
				b.Error(err)
				return
			}
		}
	})
	if err := client.Close(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkTrackBuilt measures Track and the construction of the message. The message has 8
// properties, in a map or as attributes.
func BenchmarkTrackBuilt(b *testing.B) {
	for name, track := range map[string]func(c *Client, o *order) error{
		"map": func(c *Client, o *order) error {
			return c.Track(&Track{UserId: o.user, Event: "Order Completed", Properties: map[string]interface{}{
				"orderId": o.id, "total": o.total, "currency": o.currency, "items": o.items,
				"coupon": o.coupon, "first": o.first, "shipping": o.shipping, "warehouse": o.warehouse,
			}})
		},
		"attributes": func(c *Client, o *order) error {
			return c.Track(&Track{UserId: o.user, Event: "Order Completed", Attrs: []slog.Attr{
				slog.String("orderId", o.id), slog.Float64("total", o.total), slog.String("currency", o.currency), slog.Int("items", o.items),
				slog.String("coupon", o.coupon), slog.Bool("first", o.first), slog.String("shipping", o.shipping), slog.String("warehouse", o.warehouse),
			}})
		},
	} {
		b.Run(name, func(b *testing.B) {
			orders := someOrders()
			benchmarkCalls(b, Config{FlushAt: 640}, func(c *Client, i int) error { return track(c, &orders[i%len(orders)]) })
		})
	}
}

// order is an order in a shop.
type order struct {
	user, id, currency, coupon, shipping, warehouse string
	total                                           float64
	items                                           int
	first                                           bool
}

func someOrders() (orders [16]order) {
	for i := range orders {
		orders[i] = order{
			user: fmt.Sprintf("user-%08d", 70_000+i), id: fmt.Sprintf("50314b8e-%06d", i), currency: "EUR", coupon: "SPRING-2026",
			shipping: "express", warehouse: "Rotterdam", total: 49.95 + float64(i), items: 300 + i, first: i%2 == 0,
		}
	}
	return orders
}
