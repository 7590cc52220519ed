package analytics

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
