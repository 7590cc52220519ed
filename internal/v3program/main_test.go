package main

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/internal/v3program/capture"
	"github.com/seed-45eadc4a/analytics-go/mockserver"
)

// What arrives is what arrives of the same programs with version 3: see the files in
// testdata, which the module bench makes of it.
func TestProgramsSendWhatVersion3Sends(t *testing.T) {
	for name, program := range programs {
		t.Run(name, func(t *testing.T) {
			want, err := os.ReadFile(filepath.Join("testdata", name+".json"))
			require.NoError(t, err)
			var collector capture.Collector
			srv := httptest.NewServer(&collector)
			defer srv.Close()

			require.NoError(t, program(srv.URL))

			got, err := collector.Calls()
			require.NoError(t, err)
			require.Equal(t, string(want), string(got))
		})
	}
}

// A collector takes every call of every program.
func TestProgramsAreTaken(t *testing.T) {
	srv := mockserver.RunT(t)
	for name, program := range programs {
		require.NoError(t, program(srv.URL), name)
	}
	require.Empty(t, srv.Rejections())
	srv.Expect(t, mockserver.OfEvent("Order Completed"), mockserver.Like(`{"properties":{"products":[{"id":"p-1"},{"id":"p-2"}]}}`))
	srv.Expect(t, mockserver.WithID("import-059"), mockserver.Like(`{"traits":{"n":59}}`))
}

// redirect is a transport that sends requests for the service to a collector.
type redirect struct {
	to   *url.URL
	next http.RoundTripper
}

func (r redirect) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Host = ""
	request.URL.Scheme, request.URL.Host = r.to.Scheme, r.to.Host
	return r.next.RoundTrip(request)
}

func TestReadme(t *testing.T) {
	t.Setenv("SEGMENT_WRITE_KEY", "readme-key")
	srv := mockserver.RunT(t)
	to, err := url.Parse(srv.URL)
	require.NoError(t, err)
	transport := http.DefaultTransport
	http.DefaultTransport = redirect{to, transport}
	defer func() { http.DefaultTransport = transport }()

	readme()

	srv.Source("readme-key").Expect(t, mockserver.OfEvent("test-snippet"), mockserver.Like(`{"userId":"test-user"}`))
}

// The code of a service is tested with a client of its own.
func TestTrackerWithARecorder(t *testing.T) {
	var r recorder
	tracker := Tracker{client: &r, source: "test"}
	require.NoError(t, tracker.SignedUp("u", "e", Account{ID: "a"}, timeOf(t, "2026-01-02T03:04:05Z")))
	require.Len(t, r.messages, 4)
}

func timeOf(t *testing.T, text string) time.Time {
	at, err := time.Parse(time.RFC3339, text)
	require.NoError(t, err)
	return at
}
