package mockserver

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/delivery"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// roundTripFunc is an http.RoundTripper by itself.
type roundTripFunc func(*http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestDeliveryRequestContext(t *testing.T) {
	_, ok := delivery.FromContext(t.Context())
	assert.False(t, ok, "a context of something else")

	infos := make(chan delivery.Info, 1)
	srv := RunT(t, Config{
		InProcess:    true,
		Sources:      []tracking.Source{{Name: "web", WriteKey: "key"}},
		Destinations: []tracking.Destination{{Name: "d", Settings: webhook.Settings{Webhooks: []webhook.Endpoint{{URL: "http://h/1"}}}}},
		Sender: webhook.SenderConfig{
			Transport: roundTripFunc(func(r *http.Request) (*http.Response, error) {
				info, ok := delivery.FromContext(r.Context())
				assert.True(t, ok)
				infos <- info
				return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
			}),
		},
	})
	req := httptest.NewRequest(http.MethodPost, "/v1/track", strings.NewReader(`{"userId":"u","event":"E"}`))
	req.SetBasicAuth("key", "")
	res := httptest.NewRecorder()
	srv.Engine().ServeHTTP(res, req)
	require.Equal(t, http.StatusOK, res.Code)
	assert.Equal(t, delivery.Info{Destination: "d", Source: "web"}, <-infos)
}
