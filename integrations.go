package analytics

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/seed-45eadc4a/analytics-go/internal/wire"
)

// Integrations selects the destinations of a call. A key is the name of a destination,
// spelled as in the service; case matters. The value is true, false, or an object with
// settings. Assign it to the Integrations field of a message. A call without integrations
// is sent to all destinations.
//
// Each method changes the map, which must not be nil, and returns it:
//
//	analytics.Integrations{}.DisableAll().Enable("Webhooks")
type Integrations map[string]interface{}

// allIntegrations is the key that stands for all destinations without their own key.
const allIntegrations = "All"

// NewIntegrations returns an empty map.
func NewIntegrations() Integrations { return Integrations{} }

// EnableAll selects all destinations that are not disabled by name.
func (i Integrations) EnableAll() Integrations { return i.Enable(allIntegrations) }

// DisableAll selects only destinations that are enabled by name.
func (i Integrations) DisableAll() Integrations { return i.Disable(allIntegrations) }

// Enable selects a destination.
func (i Integrations) Enable(name string) Integrations { return i.Set(name, true) }

// Disable excludes a destination.
func (i Integrations) Disable(name string) Integrations { return i.Set(name, false) }

// Set sets the value of a destination: true, false, or an object with settings, which also
// enables it.
func (i Integrations) Set(name string, value interface{}) Integrations {
	i[name] = value
	return i
}

// defaultIntegrations contains Config.Integrations as encoded JSON.
type defaultIntegrations struct {
	field   []byte // the whole field, including its name and a comma, for calls without integrations
	members []member
}

// member is an encoded field of a JSON object.
type member struct {
	key  string
	text []byte // the key, a colon and the value
}

// encodeIntegrations encodes Config.Integrations. It returns nil if the map is empty.
func encodeIntegrations(m Integrations) (*defaultIntegrations, error) {
	if len(m) == 0 {
		return nil, nil
	}
	d := &defaultIntegrations{}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		object, err := wire.AppendMap(nil, map[string]interface{}{key: m[key]}, "integrations")
		if err != nil {
			return nil, fmt.Errorf("analytics: Config.Integrations: %w", err)
		}
		d.members = append(d.members, member{key, object[1 : len(object)-1]})
	}
	texts := make([][]byte, len(d.members))
	for i, m := range d.members {
		texts[i] = m.text
	}
	d.field = slices.Concat([]byte(`"integrations":{`), bytes.Join(texts, []byte(",")), []byte("},"))
	return d, nil
}

// complete appends the default integrations that the call does not override. own contains
// the integrations of the call, which are at the end of dst.
func (d *defaultIntegrations) complete(dst []byte, own map[string]interface{}) []byte {
	if len(own) == 0 {
		return append(dst, d.field...)
	}
	dst = dst[:len(dst)-len("},")]
	for _, m := range d.members {
		if _, ok := own[m.key]; !ok {
			dst = append(append(dst, ','), m.text...)
		}
	}
	return append(dst, "},"...)
}
