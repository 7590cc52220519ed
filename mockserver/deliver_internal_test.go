package mockserver

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// roundTripFunc is an http.RoundTripper by itself.
type roundTripFunc func(*http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestDeliveryRequestContext(t *testing.T) {
	_, ok := deliveryOf(t.Context())
	assert.False(t, ok, "a context of something else")

	infos := make(chan deliveryInfo, 1)
	srv := RunT(t, Config{
		InProcess:    true,
		Sources:      []Source{{Name: "web", WriteKey: "key"}},
		Destinations: []Destination{{Name: "d", Settings: webhook.Settings{Webhooks: []webhook.Endpoint{{URL: "http://h/1"}}}}},
		Sender: webhook.SenderConfig{
			Transport: NewTransport(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})),
			Wrap: func(next http.RoundTripper) http.RoundTripper {
				return roundTripFunc(func(r *http.Request) (*http.Response, error) {
					info, ok := deliveryOf(r.Context())
					assert.True(t, ok)
					infos <- info
					return next.RoundTrip(r)
				})
			},
		},
	})
	req := httptest.NewRequest(http.MethodPost, "/v1/track", strings.NewReader(`{"userId":"u","event":"E"}`))
	req.SetBasicAuth("key", "")
	res := httptest.NewRecorder()
	srv.Engine().ServeHTTP(res, req)
	require.Equal(t, http.StatusOK, res.Code)
	assert.Equal(t, deliveryInfo{Destination: "d", Source: "web"}, <-infos)
}
