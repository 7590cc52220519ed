package routing

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

func TestRoute(t *testing.T) {
	relay := tracking.Destination{Name: "d", Settings: webhook.Settings{Type: webhook.TypeRelay}}
	for integrations, reason := range map[string]string{
		`{}`:                                  "",
		`{"All":true}`:                        "",
		`{"all":false,"Webhooks":true}`:       "",
		`{"all":false}`:                       "integrations.All is false and Webhooks is not enabled by name",
		`{"All":false}`:                       "integrations.All is false and Webhooks is not enabled by name",
		`{"All":false,"Webhooks":true}`:       "",
		`{"All":false,"Webhooks":{"a":1}}`:    "",
		`{"Webhooks":false}`:                  "integrations.Webhooks is false",
		`{"webhooks":false}`:                  "",
		`{"All":true,"Webhooks":false}`:       "integrations.Webhooks is false",
		`{"All":false,"webhooks":true}`:       "integrations.All is false and Webhooks is not enabled by name",
		`{"Other":false}`:                     "",
		`{"Webhooks":{"destinations":["d"]}}`: "",
		`{"Webhooks":{"destinations":["e"]}}`: "integrations.Webhooks.destinations does not name the destination",
	} {
		c := tracking.Call{Source: "web", Body: fmt.Appendf(nil, `{"integrations":%s}`, integrations)}
		deliver, got := Route(&tracking.Destination{Name: "d"}, &c)
		assert.Equal(t, reason == "", deliver, integrations)
		assert.Equal(t, reason, got, integrations)
	}
	for integrations, deliver := range map[string]bool{
		`{"All":false,"Other":true}`:          true,
		`{"Webhooks":false}`:                  true,
		`{"Webhooks":{"destinations":["d"]}}`: true,
		`{"Webhooks":{"destinations":["e"]}}`: false,
	} {
		c := tracking.Call{Source: "web", Body: fmt.Appendf(nil, `{"integrations":%s}`, integrations)}
		got, _ := Route(&relay, &c)
		assert.Equal(t, deliver, got, "relay: %s", integrations)
	}
	_, reason := Route(&relay, &tracking.Call{Source: "web", Type: "delete", Body: []byte(`{}`)})
	assert.Equal(t, "the tracking API of the other collector has no deletion requests", reason)
	for reason, d := range map[string]tracking.Destination{
		"": {Name: "d", Sources: []string{"ios", "web"}},
		"the destination is not connected to the source": {Name: "d", Sources: []string{"ios"}},
		"the destination is disabled":                    {Name: "d", Disabled: true},
	} {
		deliver, got := Route(&d, &tracking.Call{Source: "web", Body: []byte(`{}`)})
		assert.Equal(t, reason == "", deliver)
		assert.Equal(t, reason, got)
	}
}

func TestFilters(t *testing.T) {
	filter := func(allow, deny string) (f tracking.Filter) {
		if allow != "" {
			f.Allow = strings.Split(allow, ",")
		}
		if deny != "" {
			f.Deny = strings.Split(deny, ",")
		}
		return f
	}
	none := filter("", "")
	for _, c := range []struct {
		types, events tracking.Filter
		typ, event    string
		reason        string
	}{
		{none, none, "track", "A", ""},
		{filter("track,page", ""), none, "track", "A", ""},
		{filter("track,page", ""), none, "identify", "", "its type is not in types.allow"},
		{filter("track", ""), none, "delete", "", ""},
		{filter("", "delete"), none, "delete", "", "its type is in types.deny"},
		{filter("track", "track"), none, "track", "A", "its type is in types.deny"},
		{filter("", "page"), none, "page", "", "its type is in types.deny"},
		{filter("", "page"), none, "screen", "", ""},
		{none, filter("Order *", ""), "track", "Order Completed", ""},
		{none, filter("Order *", ""), "track", "Order ", ""},
		{none, filter("Order *", ""), "track", "Order", "its event matches no pattern in events.allow"},
		{none, filter("Order *", ""), "track", "order completed", "its event matches no pattern in events.allow"},
		{none, filter("Order *", ""), "identify", "", ""},
		{none, filter("A,B", ""), "track", "B", ""},
		{none, filter("A", ""), "track", "AB", "its event matches no pattern in events.allow"},
		{none, filter("*", ""), "track", "", ""},
		{none, filter("Order *", "Order Test*"), "track", "Order Tested", "its event matches events.deny"},
		{none, filter("", "Heartbeat"), "track", "Heartbeat", "its event matches events.deny"},
		{none, filter("", "Heartbeat"), "track", "Heartbeats", ""},
		{filter("track", ""), filter("", "A"), "track", "A", "its event matches events.deny"},
	} {
		call := tracking.Call{Source: "web", Type: c.typ, Event: c.event, Body: []byte(`{}`)}
		deliver, reason := Route(&tracking.Destination{Name: "d", Types: c.types, Events: c.events}, &call)
		assert.Equal(t, c.reason, reason, "%+v", c)
		assert.Equal(t, c.reason == "", deliver, "%+v", c)
	}
}

// An event pattern matches the name itself and, if it ends in *, all names with the prefix.
func FuzzEventPatterns(f *testing.F) {
	f.Add("Order *", "Order Completed")
	f.Add("*", "")
	f.Add("A", "A*")
	f.Fuzz(func(t *testing.T, pattern, event string) {
		matches := MatchesEvent(pattern, event)
		if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
			assert.Equal(t, len(event) >= len(prefix) && event[:len(prefix)] == prefix, matches)
		} else {
			assert.Equal(t, pattern == event, matches)
		}
		assert.True(t, MatchesEvent(event+"*", event))
		assert.True(t, MatchesEvent("*", event))
	})
}
