package mockserver_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// get returns the status and the body of a page.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	res, err := http.Get(url)
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(body)
}

func TestInspectorPages(t *testing.T) {
	rec := newReceiver(t, nil)
	srv := mockserver.RunT(t, mockserver.Config{Destinations: []mockserver.Destination{
		{Name: "hook", Settings: webhook.Settings{Webhooks: []webhook.Endpoint{{URL: rec.URL}}, SharedSecret: "s3cret"}},
	}})
	for _, path := range []string{"/", "/destinations", "/destinations/new", "/destination?name=hook", "/signatures", "/replay"} {
		status, body := get(t, srv.URL+path)
		assert.Equal(t, http.StatusOK, status, body)
		t.Log(path, len(body))
	}
}
