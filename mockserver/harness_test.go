package mockserver_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// serve asks a handler without a network, with the write key "key".
func serve(h http.Handler, method, path, body string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	req.SetBasicAuth("key", "")
	res := httptest.NewRecorder()
	h.ServeHTTP(res, req)
	return res
}

// hook is a destination with webhooks.
func hook(name string, urls ...string) tracking.Destination {
	d := tracking.Destination{Name: name}
	for _, url := range urls {
		d.Webhooks = append(d.Webhooks, webhook.Endpoint{URL: url})
	}
	return d
}

// until waits for a condition that the history's changes bring about.
func until(t *testing.T, srv *mockserver.Server, what string, holds func() bool) {
	t.Helper()
	ctx := within(t)
	for {
		changed := srv.Engine().History().Changed()
		if holds() {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("waited in vain until %s", what)
		}
	}
}
