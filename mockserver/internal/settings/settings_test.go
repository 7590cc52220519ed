package settings

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

func TestValidateReportsEachProblem(t *testing.T) {
	err := Settings{
		Sources: []tracking.Source{{Name: "a", WriteKey: "k"}, {Name: "a", WriteKey: "k", CallsPerSecond: -1}, {}},
		Destinations: []tracking.Destination{
			{Name: "d", Settings: webhook.Settings{Webhooks: []webhook.Endpoint{{URL: "http://127.0.0.1:1"}}}},
			{Name: "d", Settings: webhook.Settings{Webhooks: []webhook.Endpoint{{URL: "example.com"}}}},
			{Settings: webhook.Settings{AliasFields: "snake"}},
		},
	}.Validate()
	assert.EqualError(t, err, `sources[1].name: is "a" again: give each source a name of its own
sources[1].writeKey: is that of source "a" too: give each source a write key of its own
sources[1].callsPerSecond: is -1: use a number above 0, or leave it out
sources[2].name: is empty: give the source a name
sources[2].writeKey: is empty: give source "" a write key
destinations[1].name: is "d" again: give each destination a name of its own
destinations[1].webhooks[0].url: has the protocol "": start it with https:// or http://
destinations[2].name: is empty: give the destination a name
destinations[2].webhooks: is empty: give at least one URL
destinations[2].aliasFields: is "snake": use "spaced" or "camelCase"`)
}
