package service

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/config"
)

func TestHistoryOutlivesTheProcess(t *testing.T) {
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/gone" {
			w.WriteHeader(http.StatusGone)
		}
		_, _ = w.Write([]byte("thanks"))
	}))
	t.Cleanup(receiver.Close)
	c := &config.Config{
		Listen: "127.0.0.1:0", Data: t.TempDir(),
		Sources: []config.Source{{Name: "web", WriteKey: "web-key"}},
		Destinations: []config.Destination{
			{Name: "good", Webhooks: []config.Webhook{{URL: receiver.URL}}},
			{Name: "gone", Webhooks: []config.Webhook{{URL: receiver.URL + "/gone"}}},
			{Name: "off", Enabled: new(bool), Webhooks: []config.Webhook{{URL: receiver.URL}}},
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
				for _, destination := range []string{"good", "gone", "off"} {
					if _, decided := record.State(destination); !decided {
						return false
					}
				}
			}
			return true
		}
	}
	waitFor(t, ended(first, "m-0", "m-1", "m-2"))
	before := first.collector.History().Records(nil)
	require.NoError(t, first.shutdown())

	second := start(t, options)
	require.True(t, send(second.URL(), "web-key", "m", 4), "three of them are repeated")
	waitFor(t, ended(second, "m-0", "m-1", "m-2", "m-3"))
	for _, want := range before {
		got, ok := second.collector.History().Find("web", want.Call.ID)
		require.True(t, ok)
		assert.Equal(t, string(want.Call.Body), string(got.Call.Body))
		assert.Equal(t, want.Call.Event, got.Call.Event)
		assert.Len(t, got.Attempts, 2)
		for _, destination := range []string{"good", "gone", "off"} {
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
	ledgers, err := second.collector.Ledger(t.Context())
	require.NoError(t, err)
	assert.Equal(t, int64(4), ledgers[0].Accepted, "what was stored before is known again")
}

func TestBrokenRecordsAreRefused(t *testing.T) {
	for _, data := range []string{"", "\x05ab", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "\x02{}", "\x01x\x00"} {
		l := &attemptLog{history: mockserver.NewHistory(1), logger: discard()}
		l.apply([]byte(data))
		assert.Empty(t, l.history.Records(nil))
	}
}
