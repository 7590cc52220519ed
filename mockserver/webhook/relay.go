package webhook

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
)

// A Type is the kind of a destination.
type Type string

const (
	// TypeWebhooks sends calls to [Settings.Webhooks]. It is the default.
	TypeWebhooks Type = "webhooks"
	// TypeRelay sends calls to another collector with the tracking API of the service, like a client
	// library: POST /v1/batch with the write key. Requests are always batches, compressed with gzip.
	//
	// An element of a batch is the stored call without receivedAt, originalTimestamp and sentAt. Its
	// timestamp is already corrected, and the batch's sentAt is the time of the request, so that the
	// other collector does not correct the timestamp again. Integrations that list destinations of
	// this collector are omitted.
	TypeRelay Type = "relay"
)

// A Region selects the default of [Settings.Endpoint].
type Region string

const (
	// RegionUS is the default.
	RegionUS Region = "us"
	// RegionEU selects the endpoint of workspaces in the EU.
	RegionEU Region = "eu"
)

// serviceEndpoints are the endpoints of the service.
var serviceEndpoints = map[Region]string{
	"":       "https://api.segment.io",
	RegionUS: "https://api.segment.io",
	RegionEU: "https://events.eu1.segmentapis.com",
}

// RelayHeader contains the random ID of the collector that relays the calls. A collector refuses
// requests with its own ID, so that calls do not circulate.
const RelayHeader = "X-Relay-Id"

// Endpoints returns the URLs that receive the requests: Webhooks, or the URL of a relay's batches with
// its Authorization header.
func (s *Settings) Endpoints() []Endpoint {
	if s.Type != TypeRelay {
		return s.Webhooks
	}
	key := base64.StdEncoding.EncodeToString([]byte(s.WriteKey + ":"))
	return []Endpoint{{URL: s.relayURL(), Headers: map[string]string{"Authorization": "Basic " + key}}}
}

// relayURL returns the URL of a relay's batches. It returns an invalid endpoint unchanged.
func (s *Settings) relayURL() string {
	endpoint := s.Endpoint
	if endpoint == "" {
		endpoint = serviceEndpoints[s.Region]
	}
	u, err := url.Parse(endpoint)
	if err != nil {
		return endpoint
	}
	path := strings.TrimRight(u.Path, "/")
	switch {
	case strings.HasSuffix(path, "/batch"), strings.HasSuffix(path, "/import"):
		return endpoint
	case strings.HasSuffix(path, "/v1"):
		return u.JoinPath("batch").String()
	}
	u.Path = "/" + strings.TrimPrefix(u.Path, "/") // otherwise JoinPath omits the leading slash
	return u.JoinPath("v1", "batch").String()
}

// relay checks the settings that depend on the type.
func (p *problems) relay(s Settings) {
	unused, hint := []setting{{"endpoint", s.Endpoint != ""}, {"region", s.Region != ""}, {"writeKey", s.WriteKey != ""}}, `set type to "relay", or remove it`
	switch s.Type {
	case "", TypeWebhooks:
	case TypeRelay:
		unused = []setting{
			{"webhooks", len(s.Webhooks) > 0}, {"sharedSecret", s.SharedSecret != ""}, {"previousSecret", s.PreviousSecret != ""},
			{"signature", s.Signature != ""}, {"aliasFields", s.AliasFields != ""}, {"traceContext", s.TraceContext != ""},
		}
		hint = `set type to "webhooks", or remove it`
		if s.WriteKey == "" {
			p.add("writeKey", "is empty", "set the write key of the source in the other collector")
		}
		p.endpoint(s)
	default:
		p.add("type", fmt.Sprintf("is %.50q", s.Type), `use "webhooks" or "relay"`)
		return
	}
	for _, u := range unused {
		if u.set {
			p.add(u.name, fmt.Sprintf("has no effect with type %q", cmp.Or(s.Type, TypeWebhooks)), hint)
		}
	}
}

// A setting is the name of a setting, and whether it has a value.
type setting struct {
	name string
	set  bool
}

// endpoint checks where a relay sends its requests.
func (p *problems) endpoint(s Settings) {
	if s.Endpoint != "" {
		p.url("endpoint", s.Endpoint, "remove them; writeKey identifies the source")
		if s.Region != "" {
			p.add("region", "has no effect with an endpoint", "remove one of them")
		}
	}
	if _, ok := serviceEndpoints[s.Region]; !ok {
		p.add("region", fmt.Sprintf("is %.50q", s.Region), `use "us" or "eu", or set endpoint`)
	}
}
