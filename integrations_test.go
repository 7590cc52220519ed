package analytics_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go"
)

// Each kind of call is sent with the client's integrations and its own integrations.
func TestDefaultIntegrations(t *testing.T) {
	type object = map[string]interface{}
	for _, tt := range []struct {
		name     string
		defaults analytics.Integrations
		own      object
		want     string // the integrations that the collector receives
	}{
		{"neither", nil, nil, `null`},
		{"defaults alone", analytics.Integrations{}.DisableAll().Enable("Webhooks"), nil, `{"All":false,"Webhooks":true}`},
		{"an empty map of its own", analytics.Integrations{}.DisableAll(), object{}, `{"All":false}`},
		{"own alone", nil, object{"Mixpanel": false}, `{"Mixpanel":false}`},
		{"empty defaults", analytics.Integrations{}, object{"Mixpanel": false}, `{"Mixpanel":false}`},
		{"others are added", analytics.Integrations{}.DisableAll(), object{"Webhooks": true}, `{"Webhooks":true,"All":false}`},
		{"own takes precedence", analytics.Integrations{"All": false, "Mixpanel": object{"a": 1}}, object{"All": true}, `{"All":true,"Mixpanel":{"a":1}}`},
		{"own objects are whole", analytics.Integrations{"Mixpanel": object{"a": 1}}, object{"Mixpanel": object{"b": 2}}, `{"Mixpanel":{"b":2}}`},
		{"null of its own", analytics.Integrations{"Mixpanel": true}, object{"Mixpanel": nil}, `{"Mixpanel":null}`},
		{"names that need escapes", analytics.Integrations{"a\"b": true}, object{"x\\": true, "{}": false}, `{"x\\":true,"{}":false,"a\"b":true}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &collector{}
			client := newClient(t, c, analytics.Config{Integrations: tt.defaults})
			if tt.defaults != nil {
				tt.defaults["late"] = true // a later change of the map has no effect
			}
			for _, call := range []analytics.Call{
				&analytics.Identify{UserId: "u", Integrations: tt.own},
				&analytics.Track{Event: "e", UserId: "u", Integrations: tt.own, Properties: object{"p": 1}},
				&analytics.Page{UserId: "u", Integrations: tt.own},
				&analytics.Screen{UserId: "u", Integrations: tt.own},
				&analytics.Group{GroupId: "g", UserId: "u", Integrations: tt.own},
				&analytics.Alias{PreviousId: "p", UserId: "u", Integrations: tt.own},
			} {
				require.NoError(t, client.Enqueue(t.Context(), call))
			}
			require.NoError(t, client.Close())
			require.Equal(t, []int{6}, c.sizes())
			for _, call := range c.all()[0].body.Batch {
				got, err := json.Marshal(call["integrations"])
				require.NoError(t, err)
				require.JSONEq(t, tt.want, string(got))
			}
			require.NotContains(t, tt.own, "late", "the caller's map is not written to")
		})
	}
}

// The client's integrations count towards the size of a call.
func TestDefaultIntegrationsCountTowardsTheSize(t *testing.T) {
	big := analytics.Integrations{"Webhooks": map[string]interface{}{"note": string(make([]byte, 5000))}}
	client := newClient(t, &collector{}, analytics.Config{Integrations: big})
	var large *analytics.TooLargeError
	require.ErrorAs(t, client.Track(&analytics.Track{Event: "e", UserId: "u", Properties: map[string]interface{}{"p": string(make([]byte, 500))}}), &large)
	require.Equal(t, "integrations", large.Field)
	require.NoError(t, client.Close())
}

// A call that is read from a spool has the integrations of the client that made it.
func TestDefaultIntegrationsWithSpool(t *testing.T) {
	dir := t.TempDir()
	down := always(answer{err: errRefusedConn})
	client := newClient(t, down, analytics.Config{Spool: dir, CloseTimeout: 1, Integrations: analytics.Integrations{}.DisableAll()})
	track(t, client, "e", 1)
	require.Error(t, client.Close())
	up := &collector{}
	client = newClient(t, up, analytics.Config{Spool: dir, Integrations: analytics.Integrations{}.EnableAll()})
	require.NoError(t, client.Flush(t.Context()))
	require.NoError(t, client.Close())
	require.Equal(t, map[string]interface{}{"All": false}, up.all()[0].body.Batch[0]["integrations"])
}
