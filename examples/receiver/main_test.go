package main

import (
	"net/http/httptest"
	"strings"
	"testing"

	analytics "github.com/seed-45eadc4a/analytics-go"
	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOnlySignedCallsAreTaken(t *testing.T) {
	var out strings.Builder
	receiver := httptest.NewServer(handler("s3cret", &out))
	defer receiver.Close()
	destination := func(name, secret string) mockserver.Destination {
		return mockserver.Destination{Name: name, Settings: webhook.Settings{
			SharedSecret: secret,
			Webhooks:     []webhook.Endpoint{{URL: receiver.URL + "/hooks/analytics"}},
		}}
	}
	srv := mockserver.RunT(t, mockserver.Config{Destinations: []mockserver.Destination{
		destination("right", "s3cret"), destination("wrong", "guessed"),
	}})
	client := analytics.New("key")
	client.Endpoint = srv.URL
	require.NoError(t, client.Track(&analytics.Track{UserId: "ada", Event: "Signed Up", Properties: map[string]any{"seats": 5}}))
	require.NoError(t, client.Close())

	_, err := srv.Wait(t.Context(), 1, mockserver.DeliveredTo("right"), func(r *mockserver.Record) bool {
		wrong, decided := r.State("wrong")
		return decided && wrong.State == mockserver.StateFailed && strings.Contains(wrong.Reason, "401")
	})
	require.NoError(t, err)
	assert.Regexp(t, `^message \S+, attempt 1: {"version":1,"type":"track","userId":"ada","event":"Signed Up","properties":{"seats":5},.*}\n$`, out.String())
	assert.Equal(t, 1, strings.Count(out.String(), "\n"))
}
