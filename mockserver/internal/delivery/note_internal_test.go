package delivery

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// TestWebhookIDCoversSettings checks that the webhook ID depends on each setting that can affect
// whether a receiver accepts a call.
func TestWebhookIDCoversSettings(t *testing.T) {
	changes := map[string]func(d *tracking.Destination){
		"Redact":         func(d *tracking.Destination) { d.Redact.Remove = []string{"properties.card"} },
		"Transform":      func(d *tracking.Destination) { d.Transform = "{event}" },
		"SharedSecret":   func(d *tracking.Destination) { d.SharedSecret = "a secret" },
		"PreviousSecret": func(d *tracking.Destination) { d.PreviousSecret = "a secret" },
		"Signature":      func(d *tracking.Destination) { d.Signature = webhook.SignatureStandard },
		"AliasFields":    func(d *tracking.Destination) { d.AliasFields = "x" },
		"Webhooks":       func(d *tracking.Destination) { d.Webhooks[0].Headers = map[string]string{"A": "b"} },
		"Batch":          func(d *tracking.Destination) { d.Batch.Calls = 10 },
	}
	unrelated := map[string]string{
		"Name": "", "Sources": "", "Types": "", "Events": "", "GoneSince": "", "Disabled": "", "KeepWhileDisabled": "", "Paused": "",
		"MaxPerSecond": "affects only the times of requests", "Concurrency": "affects only the times of requests",
		"Order": "affects only the times of requests", "GiveUpAfter": "", "OnFailure": "",
		"Type":     "a relay has one endpoint, so no other endpoint can accept a call that it refused",
		"Endpoint": "of a relay", "Region": "of a relay", "WriteKey": "of a relay",
		"TraceContext": "receivers ignore the trace context",
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[tracking.Destination]()) {
		if f.Anonymous {
			continue
		}
		before := tracking.Destination{Settings: webhook.Settings{Webhooks: []webhook.Endpoint{{URL: "https://example.com"}}}}
		after := before
		after.Webhooks = []webhook.Endpoint{before.Webhooks[0]}
		change, changes := changes[f.Name]
		if _, ok := unrelated[f.Name]; ok == changes {
			t.Errorf("%s must be in one of the two lists", f.Name)
		}
		if changes {
			change(&after)
			assert.NotEqual(t, webhookID(&before, before.Webhooks[0]), webhookID(&after, after.Webhooks[0]), f.Name)
		}
	}
}

// TestWebhookIDIsStable checks that the webhook ID is the same as in earlier versions, and does not
// depend on settings that do not change requests.
func TestWebhookIDIsStable(t *testing.T) {
	d := tracking.Destination{Settings: webhook.Settings{SharedSecret: "s", Webhooks: []webhook.Endpoint{{URL: "https://example.com", Headers: map[string]string{"A": "b"}}}}}
	id := webhookID(&d, d.Webhooks[0])
	assert.Equal(t, "f0fce635", id)
	d.Concurrency, d.Batch.Wait = 5, webhook.Duration(time.Second)
	assert.Equal(t, id, webhookID(&d, d.Webhooks[0]))
}

func TestNoteFormat(t *testing.T) {
	first, due := time.Unix(36, 0), time.UnixMilli(37)
	for text, n := range map[string]note{
		"":                      {},
		"ab.cd":                 {refused: "ab.cd"},
		"1:":                    {skipped: 1},
		"0@10:":                 {failing: first},
		"0~11+z:ab":             {due: due, wait: 35 * time.Millisecond, refused: "ab"},
		"2@10~11+0:f0fce635.cd": {skipped: 2, failing: first, due: due, refused: "f0fce635.cd"},
	} {
		assert.Equal(t, text, n.String())
		assert.Equal(t, n, parseNote(text), text)
	}
}

func TestNoteDelayAfterClockChange(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, test := range []struct{ due, wait, want time.Duration }{
		{5 * time.Second, 5 * time.Second, 5 * time.Second},
		{5 * time.Second, 30 * time.Second, 5 * time.Second},
		{-time.Second, 5 * time.Second, 0},
		{15 * time.Second, 5 * time.Second, 15 * time.Second}, // within clockStep
		{15*time.Second + 1, 5 * time.Second, 0},
	} {
		n := note{due: now.Add(test.due), wait: test.wait}
		assert.Equal(t, test.want, n.left(now), "%+v", test)
	}
	assert.Zero(t, note{wait: time.Hour}.left(time.Time{}.Add(-time.Minute)))
}

// TestRefusalsFollowTheWebhooks checks which webhooks receive a call again after one has refused it.
func TestRefusalsFollowTheWebhooks(t *testing.T) {
	of := func(urls ...string) *target {
		var to target
		to.Destination = &tracking.Destination{}
		for _, url := range urls {
			to.endpoints = append(to.endpoints, endpoint{Endpoint: webhook.Endpoint{URL: url}})
		}
		return &to
	}
	both := of("http://h/1", "http://h/2")
	r := refusals("").with(both, []webhook.Endpoint{both.endpoints[0].Endpoint})
	assert.Equal(t, both.endpoints, refusals("").others(both))
	assert.Equal(t, both.endpoints[1:], r.others(both))
	assert.Equal(t, r, r.with(both, nil))
	assert.Empty(t, r.with(both, []webhook.Endpoint{both.endpoints[1].Endpoint}).others(both))
	assert.Empty(t, r.with(of("http://h/2", "http://h/3"), nil), "the webhook no longer exists")
}
