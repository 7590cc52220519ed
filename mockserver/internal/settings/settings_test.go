package settings

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

func TestValidateReportsAllProblems(t *testing.T) {
	err := Settings{
		Sources: []tracking.Source{{Name: "a", WriteKey: "k"}, {Name: "a", WriteKey: "k", CallsPerSecond: -1}, {}},
		Destinations: []tracking.Destination{
			{Name: "d", Settings: webhook.Settings{Webhooks: []webhook.Endpoint{{URL: "http://127.0.0.1:1"}}}},
			{Name: "d", Settings: webhook.Settings{Webhooks: []webhook.Endpoint{{URL: "example.com"}}}},
			{Settings: webhook.Settings{AliasFields: "snake"}},
		},
	}.Validate()
	assert.EqualError(t, err, `sources[1].name: duplicates "a": give each source a unique name
sources[1].writeKey: duplicates the write key of source "a": give each source its own write key
sources[1].callsPerSecond: is -1: use a positive number, or omit it
sources[2].name: is empty: use 1 to 100 printable characters
sources[2].writeKey: is empty: give source "" a write key
destinations[1].name: duplicates "d": give each destination a unique name
destinations[1].webhooks[0].url: has no protocol: start it with https://example.com
destinations[2].name: is empty: use 1 to 100 printable characters
destinations[2].webhooks: is empty: give at least one URL
destinations[2].aliasFields: is "snake": use "spaced" or "camelCase"`)
}

func TestValidateOrder(t *testing.T) {
	for name, test := range map[string]struct {
		ordering tracking.Ordering
		want     string
	}{
		"none":                           {tracking.Ordering{}, ""},
		"the name none":                  {tracking.Ordering{Order: "none"}, ""},
		"of users":                       {tracking.Ordering{Order: "user", GiveUpAfter: 10 * time.Minute, OnFailure: "hold"}, ""},
		"with overtaking":                {tracking.Ordering{Order: "user", OnFailure: "overtake"}, ""},
		"another order":                  {tracking.Ordering{Order: "source"}, `order: is "source": use "user" or "none"`},
		"another failure":                {tracking.Ordering{Order: "user", OnFailure: "skip"}, `onFailure: is "skip": use "hold" or "overtake"`},
		"longer than the retry period":   {tracking.Ordering{Order: "user", GiveUpAfter: 5 * time.Hour}, `giveUpAfter: is 5h0m0s: use 1s to 4h0m0s, or omit it`},
		"too short":                      {tracking.Ordering{Order: "user", GiveUpAfter: time.Millisecond}, `giveUpAfter: is 1ms: use 1s to 4h0m0s, or omit it`},
		"a time without order":           {tracking.Ordering{GiveUpAfter: time.Minute}, `giveUpAfter: requires an order: set order to "user", or omit it`},
		"a failure policy without order": {tracking.Ordering{OnFailure: "hold"}, `onFailure: requires an order: set order to "user", or omit it`},
		"a time without effect":          {tracking.Ordering{Order: "user", OnFailure: "overtake", GiveUpAfter: time.Minute}, `giveUpAfter: has no effect with onFailure "overtake": set onFailure to "hold", or omit it`},
	} {
		t.Run(name, func(t *testing.T) {
			d := tracking.Destination{Name: "d", Ordering: test.ordering, Settings: webhook.Settings{Webhooks: []webhook.Endpoint{{URL: "http://127.0.0.1:1"}}}}
			err := d.Validate()
			if test.want == "" {
				assert.NoError(t, err)
			} else {
				assert.EqualError(t, err, test.want)
			}
		})
	}
}
