package mockserver_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// serve calls a handler in-process with the write key "key".
func serve(h http.Handler, method, path, body string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	req.SetBasicAuth("key", "")
	res := httptest.NewRecorder()
	h.ServeHTTP(res, req)
	return res
}

// hook returns a destination with webhooks.
func hook(name string, urls ...string) tracking.Destination {
	d := tracking.Destination{Name: name}
	for _, url := range urls {
		d.Webhooks = append(d.Webhooks, webhook.Endpoint{URL: url})
	}
	return d
}

// newCollector returns a collector without a listener.
func newCollector(t *testing.T, config engine.Config) *engine.Collector {
	t.Helper()
	config.AnyWriteKey = true
	c, err := engine.New(config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// run starts a server with the source "web" and destinations that accept every call.
func run(t *testing.T, destinations ...string) *mockserver.Server {
	return mockserver.RunT(t, mockserver.Config{
		Sources:      []tracking.Source{{Name: "web", WriteKey: "key"}},
		Destinations: hooks(destinations...),
		Sender:       webhook.SenderConfig{Transport: mockserver.NewTransport(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))},
	})
}

// hooks returns a destination for each name, with the name as the host of its URL.
func hooks(names ...string) []tracking.Destination {
	var all []tracking.Destination
	for _, name := range names {
		all = append(all, hook(name, "http://"+name))
	}
	return all
}
