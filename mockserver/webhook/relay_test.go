package webhook

import (
	"strings"
	"testing"
)

func TestRelaySettings(t *testing.T) {
	const key = "key"
	for name, c := range map[string]struct {
		settings Settings
		want     []string
	}{
		"the service":          {Settings{Type: TypeRelay, WriteKey: key}, nil},
		"a region":             {Settings{Type: TypeRelay, WriteKey: key, Region: RegionEU}, nil},
		"an endpoint":          {Settings{Type: TypeRelay, WriteKey: key, Endpoint: "http://c.example:8765/prefix"}, nil},
		"another batch size":   {Settings{Type: TypeRelay, WriteKey: key, Batch: Batch{Wait: minBatchWait}}, nil},
		"no key":               {Settings{Type: TypeRelay}, []string{"writeKey: is empty: set the write key of the source in the other collector"}},
		"another region":       {Settings{Type: TypeRelay, WriteKey: key, Region: "mars"}, []string{`region: is "mars": use "us" or "eu", or set endpoint`}},
		"endpoint and region":  {Settings{Type: TypeRelay, WriteKey: key, Region: RegionEU, Endpoint: "https://c.example"}, []string{"region: has no effect with an endpoint: remove one of them"}},
		"no URL":               {Settings{Type: TypeRelay, WriteKey: key, Endpoint: "c.example"}, []string{"endpoint: has no protocol: start it with https://c.example"}},
		"a key in the URL":     {Settings{Type: TypeRelay, WriteKey: key, Endpoint: "https://key:@c.example"}, []string{"endpoint: contains credentials: remove them; writeKey identifies the source"}},
		"settings of webhooks": {Settings{Type: TypeRelay, WriteKey: key, SharedSecret: "s", Webhooks: []Endpoint{{URL: "https://h.example"}}}, []string{`webhooks: has no effect with type "relay": set type to "webhooks", or remove it`, `sharedSecret: has no effect with type "relay": set type to "webhooks", or remove it`}},
		"settings of a relay": {Settings{WriteKey: key, Region: RegionEU, Webhooks: []Endpoint{{URL: "https://h.example"}}},
			[]string{`region: has no effect with type "webhooks": set type to "relay", or remove it`, `writeKey: has no effect with type "webhooks": set type to "relay", or remove it`}},
		"another type": {Settings{Type: "mail", Webhooks: []Endpoint{{URL: "https://h.example"}}}, []string{`type: is "mail": use "webhooks" or "relay"`}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, err := range fieldErrors(t, c.settings.Validate()) {
				got = append(got, err.Error())
			}
			if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

func TestRelayEndpoints(t *testing.T) {
	for endpoint, want := range map[string]string{
		"":                                "https://api.segment.io/v1/batch",
		"eu":                              "https://events.eu1.segmentapis.com/v1/batch",
		"https://c.example":               "https://c.example/v1/batch",
		"https://c.example/":              "https://c.example/v1/batch",
		"https://c.example//":             "https://c.example/v1/batch",
		"https://c.example/v1":            "https://c.example/v1/batch",
		"https://c.example/a/v1/":         "https://c.example/a/v1/batch",
		"https://c.example/av1":           "https://c.example/av1/v1/batch",
		"https://c.example/v1/batch":      "https://c.example/v1/batch",
		"https://c.example/v1/batch/?a=1": "https://c.example/v1/batch/?a=1",
		"https://c.example/v1/import":     "https://c.example/v1/import",
		"https://c.example/batches?a=1":   "https://c.example/batches/v1/batch?a=1",
		"https://c.example/a%2Fb":         "https://c.example/a%2Fb/v1/batch",
		"http://[::1]:8765":               "http://[::1]:8765/v1/batch",
		"https://exa mple":                "https://exa mple",
	} {
		s := Settings{Type: TypeRelay, Endpoint: endpoint, WriteKey: "k"}
		if endpoint == "eu" {
			s.Endpoint, s.Region = "", RegionEU
		}
		all := s.Endpoints()
		if len(all) != 1 || all[0].URL != want || all[0].Headers["Authorization"] != "Basic azo=" {
			t.Errorf("%s: got %v, want %s", endpoint, all, want)
		}
	}
}
