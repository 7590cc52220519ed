package tracking

import (
	"errors"

	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// A Source is where calls come from: a program, a site or an app. It is known
// by its write key.
type Source struct {
	Name     string `json:"name"`
	WriteKey string `json:"writeKey"`
	// CallsPerSecond is how many calls it may send a second, on average. More are
	// answered 429. Defaults to Limits.CallsPerSecond.
	CallsPerSecond int `json:"callsPerSecond,omitempty"`
}

// A Destination forwards the calls of its sources to up to five webhooks.
type Destination struct {
	// Name tells it from the others.
	Name string `json:"name"`
	// Sources are the names of those it is connected to. None means all.
	Sources []string `json:"sources,omitempty"`
	// Disabled destinations get nothing.
	Disabled bool `json:"disabled,omitempty"`
	// Paused destinations make no attempts; their calls wait.
	Paused bool `json:"paused,omitempty"`
	// Ordering is in which order its calls are delivered. Defaults to none.
	Ordering
	// Settings are the webhooks, their headers, and the shared secret.
	webhook.Settings
}

// Validate returns nil, or a [*webhook.FieldError] for each setting that is wrong, joined
// in the order of the fields.
func (d Destination) Validate() error {
	return errors.Join(d.problem(), d.Settings.Validate())
}
