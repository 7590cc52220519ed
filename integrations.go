package analytics

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/seed-45eadc4a/analytics-go/internal/wire"
)

// Integrations says which destinations a call goes to: a destination's name,
// as the service writes it and case sensitive, mapped to true, false or an
// object of settings. It can be assigned to the Integrations field of every
// message. Without it a call goes to every destination.
//
// Each method changes the map, which must not be nil, and returns it, so that
// calls can be chained:
//
//	analytics.Integrations{}.DisableAll().Enable("Webhooks")
type Integrations map[string]interface{}

// allIntegrations is the key that stands for every destination not named.
const allIntegrations = "All"

// NewIntegrations returns an empty set of choices.
func NewIntegrations() Integrations { return Integrations{} }

// EnableAll sends the call to every destination that is not disabled by name.
func (i Integrations) EnableAll() Integrations { return i.Enable(allIntegrations) }

// DisableAll sends the call to no destination but those enabled by name.
func (i Integrations) DisableAll() Integrations { return i.Disable(allIntegrations) }

// Enable sends the call to the named destination.
func (i Integrations) Enable(name string) Integrations { return i.Set(name, true) }

// Disable keeps the call from the named destination.
func (i Integrations) Disable(name string) Integrations { return i.Set(name, false) }

// Set maps the named destination to value: true, false, or an object of
// settings for it, which also enables it.
func (i Integrations) Set(name string, value interface{}) Integrations {
	i[name] = value
	return i
}

// defaultIntegrations are Config.Integrations, encoded. A nil one is none.
type defaultIntegrations struct {
	field   []byte // of a call that has no integrations: the name, the object and a comma
	members []member
}

// member is a member of an object, as JSON.
type member struct {
	key  string
	text []byte // the key, a colon and the value
}

// encodeIntegrations encodes Config.Integrations. It returns nil if there are none.
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

// complete appends the members that a call does not have itself to its integrations,
// own, which have just been written to dst.
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
