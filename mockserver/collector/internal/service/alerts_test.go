package service

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/alerts"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/config"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// newAlertReceiver starts a webhook that verifies alerts. got receives the alerts.
func newAlertReceiver(t *testing.T, verify func(r *http.Request, body []byte) error) (url string, got <-chan map[string]any) {
	t.Helper()
	alerts := make(chan map[string]any, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var alert map[string]any
		if assert.NoError(t, err) && assert.NoError(t, verify(r, body)) && assert.NoError(t, json.Unmarshal(body, &alert)) {
			alerts <- alert
		}
	}))
	t.Cleanup(receiver.Close)
	return receiver.URL, alerts
}

func next(t *testing.T, alerts <-chan map[string]any) map[string]any {
	t.Helper()
	select {
	case a := <-alerts:
		return a
	case <-time.After(time.Minute):
		t.Fatal("no alert came")
		return nil
	}
}

func TestAlerts(t *testing.T) {
	url, got := newAlertReceiver(t, func(r *http.Request, body []byte) error {
		assert.Equal(t, "ops", r.Header.Get("X-Team"))
		assert.NotEmpty(t, r.Header.Get("X-Message-Id"))
		return webhook.Verify("hush", body, r.Header.Get(webhook.SignatureHeader))
	})
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) }))
	t.Cleanup(refusing.Close)
	closed, err := harness.FreeAddress()
	require.NoError(t, err)
	c := config.Config{
		Listen: "127.0.0.1:0", Data: t.TempDir(), Egress: config.Egress{Allow: loopback()},
		Sources: []config.Source{{Name: "web", WriteKey: "web-key"}},
		Destinations: []config.Destination{
			hook("refusing", refusing.URL),
			hook("unreachable", "http://"+closed),
		},
		Alerts: &alerts.Config{Webhook: url, After: time.Millisecond, SharedSecret: "hush", Headers: map[string]string{"X-Team": "ops"}},
	}
	s := start(t, Options{Config: &c})
	require.True(t, send(s.URL(), "web-key", "a", 3))
	kinds := map[any]bool{}
	for len(kinds) < 3 {
		a := next(t, got)
		assert.Equal(t, "alert", a["type"])
		if a["kind"] == "destination" { // the given_up alert recovers soon
			assert.Equal(t, "raised", a["state"])
		}
		kinds[a["kind"].(string)+" "+a["destination"].(string)] = true
		if a["kind"] == "given_up" {
			assert.Equal(t, "refusing", a["destination"])
			assert.Contains(t, a["reason"], "400")
		}
	}
	assert.Equal(t, map[any]bool{"destination refusing": true, "destination unreachable": true, "given_up refusing": true}, kinds)
	waitFor(t, func() bool {
		_, metrics := get(t, http.DefaultClient, s.URL()+"/metrics", "")
		return strings.Contains(metrics, `collector_alerts_total{kind="given_up",result="sent"}`)
	})

	// After a reload, a new webhook receives all current alerts.
	slack, told := newAlertReceiver(t, func(r *http.Request, _ []byte) error {
		assert.Empty(t, r.Header.Get(webhook.SignatureHeader))
		return nil
	})
	changed := c
	changed.Alerts = &alerts.Config{Webhook: slack, Format: alerts.Slack}
	restart, err := s.Reload(t.Context(), &changed)
	require.NoError(t, err)
	assert.Empty(t, restart)
	for a := next(t, told); ; a = next(t, told) {
		assert.Len(t, a, 1)
		if strings.Contains(a["text"].(string), "The destination unreachable has accepted few or no calls") {
			break
		}
	}
}

// TestEgressAppliesToAlerts checks that the egress rules apply to alerts.
func TestEgressAppliesToAlerts(t *testing.T) {
	url, got := newAlertReceiver(t, func(*http.Request, []byte) error { return nil })
	c := config.Config{
		Listen: "127.0.0.1:0", Data: t.TempDir(),
		Sources:      []config.Source{{Name: "web", WriteKey: "web-key"}},
		Destinations: []config.Destination{hook("refused", "http://127.0.0.1:1/")},
		Alerts:       &alerts.Config{Webhook: url},
	}
	s := start(t, Options{Config: &c})
	require.True(t, send(s.URL(), "web-key", "a", 1))
	waitFor(t, func() bool {
		_, metrics := get(t, http.DefaultClient, s.URL()+"/metrics", "")
		return strings.Contains(metrics, `collector_alerts_total{kind="given_up",result="failed"}`)
	})
	assert.Empty(t, got)
}
