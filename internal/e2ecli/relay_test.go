package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// relayed returns a scenario like newScenario, but the client sends its calls to a relay, which sends
// them to the server.
func relayed(t *testing.T) *scenario {
	t.Helper()
	s := newScenario(t, mockserver.Config{})
	relay := mockserver.RunT(t, mockserver.Config{Destinations: []tracking.Destination{{
		Name: "relay", Settings: webhook.Settings{
			Type: webhook.TypeRelay, Endpoint: s.srv.URL, WriteKey: "k",
			Batch: webhook.Batch{Wait: webhook.Duration(100 * time.Millisecond)},
		},
	}}})
	s.input["apiHost"] = relay.URL
	return s
}

// wait waits until the server has n calls.
func (s *scenario) wait(t *testing.T, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := s.srv.Wait(ctx, n)
	require.NoError(t, err)
}

// A server receives the same calls through a relay as directly from the client.
func TestRelay(t *testing.T) {
	t.Parallel()
	var events []object
	for _, typ := range []string{"identify", "track", "page", "screen", "alias", "group"} {
		events = append(events, object{
			"type": typ, "userId": "u", "event": "Bought", "name": "Home", "previousId": "p", "groupId": "g", "messageId": typ,
			"context": object{"ip": "192.0.2.1"}, "integrations": object{"All": false, "Other": true},
			"properties": object{"cents": json.Number("9007199254740993")}, "traits": object{"plan": "pro"},
		})
	}
	bodies := func(s *scenario) (all []map[string]json.RawMessage) {
		s.input["sequences"] = []object{{"events": events}}
		s.configure("flushAt", 15)
		require.Equal(t, output{Success: true, SentBatches: 1}, s.run(t))
		s.wait(t, len(events))
		require.Empty(t, s.srv.Rejections())
		require.Equal(t, []string{""}, s.counts)
		for _, e := range events {
			record, ok := s.srv.Call(e["messageId"].(string))
			require.True(t, ok, e)
			var body map[string]json.RawMessage
			require.NoError(t, json.Unmarshal(record.Call.Body, &body))
			require.WithinDuration(t, time.Now(), record.Call.Timestamp, time.Minute)
			for _, name := range []string{"timestamp", "originalTimestamp", "sentAt", "receivedAt"} {
				require.Contains(t, body, name)
				delete(body, name)
			}
			all = append(all, body)
		}
		return all
	}
	require.Equal(t, bodies(newScenario(t, mockserver.Config{})), bodies(relayed(t)))
}

// A relay retries like the service's client libraries.
func TestRelayRetries(t *testing.T) {
	for _, status := range []int{408, 410, 429, 460, 500, 502, 503, 504, 529} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			s := relayed(t)
			s.fail(status, 1, http.Header{"Retry-After": {"1"}})
			require.True(t, s.run(t).Success)
			s.wait(t, 1)
			require.Equal(t, []string{"", "1"}, s.counts)
			require.GreaterOrEqual(t, s.at[1].Sub(s.at[0]), time.Second)
			record, _ := s.srv.Call("one")
			require.Equal(t, 1, record.RetryCount)
			require.Zero(t, record.Repeats)
		})
	}
}
