package service

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/config"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

func TestHistorySurvivesRestart(t *testing.T) {
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/gone" {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = w.Write([]byte("thanks"))
	}))
	t.Cleanup(receiver.Close)
	both := hook("both", receiver.URL+"/a")
	both.Webhooks = append(both.Webhooks, webhook.Endpoint{URL: receiver.URL + "/b"})
	off := hook("off", receiver.URL)
	off.Enabled = new(bool)
	c := &config.Config{
		Listen: "127.0.0.1:0", Data: t.TempDir(),
		Sources: []config.Source{{Name: "web", WriteKey: "web-key"}},
		Destinations: []config.Destination{
			hook("good", receiver.URL),
			hook("gone", receiver.URL+"/gone"),
			both,
			off,
		},
	}
	options := Options{Dev: true, Config: c, Version: "test", Log: discard()}
	first, err := Start(t.Context(), options)
	require.NoError(t, err)
	require.True(t, send(first.URL(), "web-key", "m", 3))
	ended := func(s *Service, ids ...string) func() bool {
		return func() bool {
			for _, id := range ids {
				record, _ := s.collector.History().Find("web", id)
				if len(record.Attempts) < 4 || len(record.Ends) < 4 {
					return false
				}
			}
			return true
		}
	}
	waitFor(t, ended(first, "m-0", "m-1", "m-2"))
	before := first.collector.History().Records(nil)
	require.NoError(t, first.shutdown())

	second, err := Start(t.Context(), options)
	require.NoError(t, err)
	require.True(t, send(second.URL(), "web-key", "m", 4), "three of them are repeated")
	waitFor(t, ended(second, "m-0", "m-1", "m-2", "m-3"))
	for _, want := range before {
		got, ok := second.collector.History().Find("web", want.Call.ID)
		require.True(t, ok)
		assert.Equal(t, string(want.Call.Body), string(got.Call.Body))
		assert.Equal(t, want.Call.Event, got.Call.Event)
		assert.Len(t, got.Attempts, 4)
		assert.Len(t, got.Ends, 4, "one outcome for each destination")
		for _, destination := range []string{"good", "gone", "both", "off"} {
			wantState, _ := want.State(destination)
			gotState, _ := got.State(destination)
			assert.Equal(t, wantState, gotState)
		}
		for _, a := range got.Attempts {
			assert.Equal(t, "thanks", string(a.ResponseBody))
			assert.Contains(t, string(a.RequestBody), `"type":"track"`)
			assert.NotZero(t, a.Duration)
			assert.NotEmpty(t, a.RequestHeader["X-Message-Id"])
		}
	}
	ledgers := ledgersOf(t, second)
	assert.Equal(t, int64(4), ledgers[0].Accepted, "what was stored before is known again")
	require.NoError(t, second.shutdown())

	third := start(t, options)
	replayed, err := third.collector.Replay(t.Context(), "good", engine.Selection{State: tracking.StateDelivered})
	require.NoError(t, err)
	assert.Equal(t, 4, replayed, "what was delivered before can be replayed at once")
}

func FuzzRecords(f *testing.F) {
	call, err := event.ReadCall("web", []byte(`{"type":"track","event":"E","userId":"u","messageId":"m","receivedAt":"2026-01-02T03:04:05.678Z"}`))
	require.NoError(f, err)
	at := call.ReceivedAt
	attempt := tracking.Attempt{CallID: "m", Source: "web", Destination: "hook", Call: &call, Attempt: webhook.Attempt{
		Time: at, Duration: time.Second, URL: "https://example.com", Number: 3, Calls: 100, Shared: true, Status: 503, Verdict: webhook.Temporary, Reason: "status",
		Error: "responded with 503", RetryAfter: time.Minute, RequestHeader: http.Header{"A": {"b"}}, RequestBody: []byte("{}"),
		ResponseHeader: http.Header{"C": {"d", "e"}}, ResponseBody: []byte("no"),
	}, Late: true}
	ended := tracking.Ended{
		CallID: "m", Source: "web", Destination: "hook", At: at, ReceivedAt: at, Attempt: 3, RetryAt: at, Shared: true,
		Outcome: tracking.Outcome{State: tracking.StateFailed, Reason: "no"}, Call: &call,
	}
	records := [][]byte{appendAttempt(nil, "me", &attempt), appendEnded(nil, "me", &ended)}
	for _, r := range records {
		f.Add(r)
	}
	first, err := readLogged(records[0])
	require.NoError(f, err)
	require.Equal(f, logged{writer: "me", attempt: &attempt}, first)
	second, err := readLogged(records[1])
	require.NoError(f, err)
	require.Equal(f, logged{writer: "me", ended: &ended}, second)
	attempt.Calls, attempt.Shared, attempt.Late, ended.Shared = 0, false, false, false
	for n, want := range []logged{{writer: "me", attempt: &attempt}, {writer: "me", ended: &ended}} {
		older := records[n][:len(records[n])-[]int{4, 1}[n]] // 100 has two bytes
		got, err := readLogged(older)
		require.NoError(f, err)
		require.Equal(f, want, got)
	}

	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := readLogged(data)
		if err != nil || r.attempt == nil {
			return
		}
		again, err := readLogged(appendAttempt(nil, r.writer, r.attempt))
		require.NoError(t, err)
		require.Equal(t, r.attempt.CallID, again.attempt.CallID)
	})
}
