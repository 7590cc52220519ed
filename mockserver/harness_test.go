package mockserver_test

import (
	"net/http"
	"net/http/httptest"
	"strings"

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
