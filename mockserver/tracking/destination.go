package tracking

import (
	"errors"
	"fmt"
	"slices"
	"strings"

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
	// Types picks the calls it gets by their type: alias, group, identify, page, screen,
	// track or delete. A notification of a deletion request is kept out by Deny alone.
	// Defaults to all.
	Types Filter `json:"types,omitzero"`
	// Events picks the track calls it gets by their event. A name that ends in * stands
	// for all that begin with what is before it. Defaults to all.
	Events Filter `json:"events,omitzero"`
	// Disabled destinations get nothing.
	Disabled bool `json:"disabled,omitempty"`
	// Paused destinations make no attempts; their calls wait.
	Paused bool `json:"paused,omitempty"`
	// Settings are the webhooks, their headers, and the shared secret.
	webhook.Settings
}

// A Filter picks calls by a name that they have: those that Allow names, or all where it
// names none, but for those that Deny names.
type Filter struct {
	Allow []string `json:"allow,omitempty"`
	Deny  []string `json:"deny,omitempty"`
}

// callTypes are the types of calls that a destination can get.
var callTypes = []string{"alias", "delete", "group", "identify", "page", "screen", "track"}

// Validate returns nil, or one [*webhook.FieldError] for each thing that is wrong with the
// filters and the Settings, joined. The name and the sources are not looked at.
func (d Destination) Validate() error {
	problems := []error{d.Settings.Validate()}
	d.Types.each("types", func(field, name string) {
		if !slices.Contains(callTypes, name) {
			problems = append(problems, &webhook.FieldError{Field: field, Problem: fmt.Sprintf("is %q, which is no type of calls", name), Hint: "use some of " + strings.Join(callTypes, ", ")})
		}
	})
	d.Events.each("events", func(field, name string) {
		switch star := strings.IndexByte(name, '*'); {
		case strings.TrimSpace(name) == "":
			problems = append(problems, &webhook.FieldError{Field: field, Problem: "is empty", Hint: "name an event, or leave it out"})
		case star >= 0 && star < len(name)-1:
			problems = append(problems, &webhook.FieldError{Field: field, Problem: fmt.Sprintf("is %q, with a * before its end", name), Hint: `use * as the last character alone, as in "Order *"`})
		}
	})
	return errors.Join(problems...)
}

// each calls see with each name of a filter and the field that has it.
func (f Filter) each(setting string, see func(field, name string)) {
	for i, name := range f.Allow {
		see(fmt.Sprintf("%s.allow[%d]", setting, i), name)
	}
	for i, name := range f.Deny {
		see(fmt.Sprintf("%s.deny[%d]", setting, i), name)
	}
}
