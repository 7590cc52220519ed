package main

import (
	"encoding/json"
	"math"
	"net"
	"time"

	"github.com/seed-45eadc4a/analytics-go/compat/v3"
)

type plan string

type address struct {
	Street string `json:"street"`
	Number int    `json:"number,omitempty"`
}

// calls sends messages of all types with all fields, including IDs and times.
func calls(endpoint string) error {
	client, err := analytics.NewWithConfig("calls-key", analytics.Config{
		Endpoint: endpoint,
		DefaultContext: &analytics.Context{
			Library: analytics.LibraryInfo{Name: "not mine"},
			Locale:  "fr-FR",
			Traits:  analytics.Traits{"env": "test"},
			Extra:   map[string]interface{}{"region": "eu", "locale": "overridden", "library": 1},
		},
	})
	if err != nil {
		return err
	}
	at := time.Date(2026, 5, 6, 7, 8, 9, 120_000_000, time.UTC)
	context := &analytics.Context{
		App:       analytics.AppInfo{Name: "n", Version: "v", Build: "b", Namespace: "ns"},
		Campaign:  analytics.CampaignInfo{Name: "n", Source: "s", Medium: "m", Term: "t", Content: "c"},
		Device:    analytics.DeviceInfo{Id: "i", Manufacturer: "m", Model: "o", Name: "n", Type: "t", Version: "v", AdvertisingID: "a"},
		Library:   analytics.LibraryInfo{Name: "n", Version: "v"},
		Location:  analytics.LocationInfo{City: "c", Country: "o", Region: "r", Latitude: 52.37, Longitude: -4.9e-7, Speed: 1e21},
		Network:   analytics.NetworkInfo{Bluetooth: true, Cellular: true, WIFI: true, Carrier: "c"},
		OS:        analytics.OSInfo{Name: "n", Version: "v"},
		Page:      analytics.PageInfo{Hash: "h", Path: "p", Referrer: "r", Search: "s", Title: "t <&> \u2028 \x00 \"", URL: "u"},
		Referrer:  analytics.ReferrerInfo{Type: "t", Name: "n", URL: "u", Link: "l"},
		Screen:    analytics.ScreenInfo{Density: 2, Width: 640, Height: -1},
		IP:        net.ParseIP("2001:db8::7"),
		Locale:    "nl-NL",
		Timezone:  "Europe/Amsterdam",
		UserAgent: "a",
		Traits:    analytics.Traits{"plan": "team"},
		Extra:     map[string]interface{}{"anything": []int{1, 2}, "os": "overridden", "app": 1},
	}
	values := map[string]interface{}{
		"string": "é \xff", "true": true, "null": nil, "int": -3, "uint8": uint8(3), "float": 2.5, "large": 1e21,
		"tiny": 1e-7, "max": math.MaxFloat64, "float32": float32(0.1), "number": json.Number("12.0"),
		"time": at, "duration": time.Second, "bytes": []byte("abc"), "raw": json.RawMessage(`{"a": [1]}`),
		"plan": plan("pro"), "struct": address{Street: "Main"}, "pointer": &address{Number: 2},
		"map": map[string]string{"b": "2", "a": "1"}, "ints": map[int]string{2: "b", 1: "a"},
		"nested": analytics.Properties{"deep": analytics.Traits{"er": []interface{}{1, "x", nil}}},
		"empty":  map[string]interface{}{}, "nil": map[string]interface{}(nil), "slice": []string(nil),
		"ip": net.ParseIP("192.0.2.1"), "": "no key",
	}
	all := analytics.NewIntegrations().EnableAll().Disable("Mixpanel").Set("Adjust", map[string]interface{}{"id": 7})
	for _, m := range []analytics.Message{
		analytics.Alias{Type: "ignored", MessageId: "m1", PreviousId: "p", UserId: "u", Timestamp: at, Context: context, Integrations: all},
		analytics.Group{MessageId: "m2", AnonymousId: "a", UserId: "u", GroupId: "g", Timestamp: at, Context: context, Traits: values, Integrations: all},
		analytics.Identify{MessageId: "m3", AnonymousId: "a", UserId: "u", Timestamp: at, Context: context, Traits: values, Integrations: all},
		analytics.Page{MessageId: "m4", AnonymousId: "a", UserId: "u", Name: "n", Timestamp: at, Context: context, Properties: values, Integrations: all},
		analytics.Screen{MessageId: "m5", AnonymousId: "a", UserId: "u", Name: "n", Timestamp: at, Context: context, Properties: values, Integrations: all},
		analytics.Track{MessageId: "m6", AnonymousId: "a", UserId: "u", Event: "e", Timestamp: at, Context: context, Properties: values, Integrations: all},
		analytics.Track{MessageId: "m7", UserId: "u", Event: "bare", Timestamp: at},
		analytics.Track{MessageId: "m8", UserId: "u", Event: "empty", Timestamp: at, Properties: analytics.Properties{}, Integrations: analytics.Integrations{}},
		analytics.Page{MessageId: "m9", AnonymousId: "a", Timestamp: at.In(time.FixedZone("", -3600))},
		analytics.Track{MessageId: "m10", UserId: "u", Event: "one field", Timestamp: at, Context: &analytics.Context{Screen: analytics.ScreenInfo{Width: 1}}},
	} {
		if err := client.Enqueue(m); err != nil {
			return err
		}
	}
	return client.Close()
}
