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
