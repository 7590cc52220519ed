package jq_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/jq"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

const threeFields = `{user: .userId, event, total: .properties.revenue}`

// order is a call of about 800 bytes. %d is its number.
const order = `{"type":"track","event":"Order Completed","userId":"user","messageId":"%d","timestamp":"2026-01-31T12:34:56.789Z",` +
	`"context":{"app":{"build":"1042","name":"Shop","version":"3.14.0"},"device":{"model":"Pixel 9","type":"android"},"ip":"203.0.113.7","locale":"en-GB","os":{"name":"Android","version":"16"},"userAgent":"Mozilla/5.0 (Linux; Android 16; Pixel 9) AppleWebKit/537.36"},` +
	`"properties":{"currency":"EUR","coupon":null,"discount":0.15,"list":"%s","products":[{"price":19.99,"quantity":2,"sku":"A-1"},{"price":5,"quantity":1,"sku":"B-7"}],"revenue":44.98,"shipping":4.9}}`

func BenchmarkTransform(b *testing.B) {
	transform, err := jq.Compile(threeFields)
	require.NoError(b, err)
	body, err := webhook.Payload(fmt.Appendf(nil, order, 1, strings.Repeat("x", 230)), "")
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := transform(body); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDeliver delivers batches of 500 calls to a receiver on a socket, alternately without and
// with a transform, so that other load affects both.
func BenchmarkDeliver(b *testing.B) {
	arrived := make(chan struct{}, 1000)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		arrived <- struct{}{}
	}))
	defer receiver.Close()
	servers := map[string]*mockserver.Server{}
	took := map[string]time.Duration{}
	for _, program := range []string{"", threeFields} {
		d := tracking.Destination{Name: "d", Transform: program, Settings: webhook.Settings{Webhooks: []webhook.Endpoint{{URL: receiver.URL}}, SharedSecret: "s3cret"}}
		srv, err := mockserver.Run(mockserver.Config{InProcess: true, Destinations: []tracking.Destination{d}, Transforms: jq.Compile})
		require.NoError(b, err)
		defer srv.Close()
		servers[program] = srv
	}
	id := 0
	deliver := func(program string) {
		var body bytes.Buffer
		body.WriteString(`{"batch":[`)
		for i := range 500 {
			if i > 0 {
				body.WriteByte(',')
			}
			id++
			fmt.Fprintf(&body, order, id, strings.Repeat("x", 230))
		}
		body.WriteString(`]}`)
		start := time.Now()
		req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, servers[program].URL+"/v1/batch", &body)
		require.NoError(b, err)
		req.SetBasicAuth("key", "")
		res, err := servers[program].Client().Do(req)
		require.NoError(b, err)
		require.NoError(b, res.Body.Close())
		require.Equal(b, http.StatusOK, res.StatusCode)
		for range 500 {
			<-arrived
		}
		took[program] += time.Since(start)
	}
	for b.Loop() {
		deliver("")
		deliver(threeFields)
	}
	for program, name := range map[string]string{"": "plain", threeFields: "transformed"} {
		b.ReportMetric(float64(500*b.N)/took[program].Seconds(), name+"/s")
	}
	b.ReportMetric(100*took[""].Seconds()/took[threeFields].Seconds(), "%ofplain")
}
