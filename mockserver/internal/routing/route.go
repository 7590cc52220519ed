// Package routing decides which destinations get a call. The decision depends on the settings,
// sources and filters of a destination and on the integrations object of the call. The functions are
// pure.
//
// [IsConnected] is called when a batch is stored, [Route] when a destination delivers a call, and
// [IntegrationsOf] when a client library requests the settings of its source.
package routing

import (
	"bytes"
	"slices"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/internal/jsonscan"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// integrationName is the name of webhooks in a call's integrations object. It is case-sensitive.
const integrationName = "Webhooks"

// IntegrationsOf returns the names of the integrations that receive the calls of a source.
func IntegrationsOf(source string, destinations []tracking.Destination) []string {
	for i := range destinations {
		if d := &destinations[i]; d.Receives() && IsConnected(d, source) {
			return []string{integrationName}
		}
	}
	return []string{}
}

// IsConnected reports whether a destination is connected to a source.
func IsConnected(d *tracking.Destination, source string) bool {
	return len(d.Sources) == 0 || slices.Contains(d.Sources, source)
}

// Route reports whether a destination gets a call. If not, it returns the reason.
func Route(d *tracking.Destination, c *tracking.Call) (deliver bool, reason string) {
	switch {
	case !d.Receives():
		return false, "the destination is disabled"
	case !IsConnected(d, c.Source):
		return false, "the destination is not connected to the source"
	case d.Type == webhook.TypeRelay && c.Type == "delete":
		return false, "the tracking API of the other collector has no deletion requests"
	}
	if reason := deniedByType(&d.Types, c.Type); reason != "" {
		return false, reason
	}
	if reason := deniedByEvent(&d.Events, c); reason != "" {
		return false, reason
	}
	return integrationEnabled(c.Body, d)
}

// deniedByType returns the reason why a type filter excludes a call, or "". Only Deny excludes
// delete, so that an allow list of types does not suppress deletion requests.
func deniedByType(f *tracking.Filter, typ string) (reason string) {
	switch {
	case slices.Contains(f.Deny, typ):
		return "its type is in types.deny"
	case len(f.Allow) > 0 && typ != "delete" && !slices.Contains(f.Allow, typ):
		return "its type is not in types.allow"
	}
	return ""
}

// deniedByEvent returns the reason why an event filter excludes a call, or "".
func deniedByEvent(f *tracking.Filter, c *tracking.Call) (reason string) {
	names := func(pattern string) bool { return MatchesEvent(pattern, c.Event) }
	switch {
	case c.Type != "track":
		return ""
	case slices.ContainsFunc(f.Deny, names):
		return "its event matches events.deny"
	case len(f.Allow) > 0 && !slices.ContainsFunc(f.Allow, names):
		return "its event matches no pattern in events.allow"
	}
	return ""
}

// MatchesEvent reports whether a pattern matches an event name. A pattern that ends in * matches a
// prefix.
func MatchesEvent(pattern, event string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(event, prefix)
	}
	return pattern == event
}

// ScopeTo returns an integrations object that enables only the named destinations.
func ScopeTo(destinations []string) map[string]any {
	return map[string]any{"All": false, integrationName: map[string]any{destinationsOption: destinations}}
}

// IsScoped reports whether an integrations object lists destinations of this collector.
func IsScoped(integrations []byte) bool {
	return len(fields.Member(fields.Member(integrations, integrationName), destinationsOption)) > 0
}

// destinationsOption is the field of the Webhooks integration that lists the destinations to enable.
const destinationsOption = "destinations"

// integrationEnabled reports whether the integrations object of a call enables a destination. It
// does, unless Webhooks is false, or All is false and Webhooks is neither true nor an object. If
// Webhooks is an object that lists destinations, only these destinations are enabled. For a relay, only
// this list matters, because the other collector evaluates the rest.
func integrationEnabled(body []byte, d *tracking.Destination) (bool, string) {
	if !bytes.Contains(body, []byte("integrations")) && !bytes.Contains(body, []byte(`\u`)) {
		return true, "" // true for most calls; a key with escapes contains \u
	}
	all, ours := byte('t'), byte(0)
	var options []byte
	for m := range jsonscan.Members(fields.Member(body, "integrations")) {
		switch string(jsonscan.Unquote(m.Key)) {
		case "All", "all": // the service's Go library sends "all"
			all = m.Value[0]
		case integrationName:
			ours, options = m.Value[0], m.Value
		}
	}
	switch {
	case ours == '{' && !inScope(options, d.Name):
		return false, "integrations." + integrationName + "." + destinationsOption + " does not name the destination"
	case d.Type == webhook.TypeRelay:
		return true, ""
	case ours == 'f':
		return false, "integrations." + integrationName + " is false"
	case all == 'f' && ours != 't' && ours != '{':
		return false, "integrations.All is false and " + integrationName + " is not enabled by name"
	}
	return true, ""
}

// inScope reports whether the options of the Webhooks integration enable a destination: they list it,
// or contain no list.
func inScope(options []byte, destination string) bool {
	list := fields.Member(options, destinationsOption)
	if len(list) == 0 || list[0] != '[' {
		return true
	}
	for value := range jsonscan.Elements(list) {
		if value[0] == '"' && string(jsonscan.Unquote(value)) == destination {
			return true
		}
	}
	return false
}
