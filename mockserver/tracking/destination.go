package tracking

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

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
	// MaxPerSecond is how many calls it gets in a second at most, evenly spread; 0.5 is one
	// every two seconds. Each collector of a cluster keeps to it by itself. Defaults to no
	// limit.
	MaxPerSecond float64 `json:"maxPerSecond,omitempty"`
	// Concurrency is how many of its calls may be under way at once, up to 1,000. Defaults to
	// what the collector is configured with, or else 64.
	Concurrency int `json:"concurrency,omitempty"`
	// Disabled destinations get nothing.
	Disabled bool `json:"disabled,omitempty"`
	// Paused destinations make no attempts; their calls wait.
	Paused bool `json:"paused,omitempty"`
	// Ordering is in which order its calls are delivered. Defaults to none.
	Ordering
	// GoneSince is when all of its webhooks had answered 410 (Gone): from then on its calls
	// fail without a request. The collector sets it.
	GoneSince time.Time `json:"goneSince,omitzero"`
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
// order, the filters, the rates and the Settings, joined. The name and the sources are not looked at.
func (d Destination) Validate() error {
	problems := []error{d.problem(), d.Settings.Validate()}
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
	if n := d.MaxPerSecond; n != 0 && !(n >= minPerSecond && n <= maxPerSecond) {
		problems = append(problems, &webhook.FieldError{Field: "maxPerSecond", Problem: fmt.Sprintf("is %v", n), Hint: "use a number from 0.001 to 1,000,000, or leave it out for no limit"})
	}
	if n := d.Concurrency; n < 0 || n > maxConcurrency {
		problems = append(problems, &webhook.FieldError{Field: "concurrency", Problem: fmt.Sprintf("is %d", n), Hint: "use a whole number from 1 to 1,000, or leave it out"})
	}
	return errors.Join(problems...)
}

// Bounds of MaxPerSecond and Concurrency.
const (
	minPerSecond, maxPerSecond = 0.001, 1_000_000
	maxConcurrency             = 1000
)

// each calls see with each name of a filter and the field that has it.
func (f Filter) each(setting string, see func(field, name string)) {
	for i, name := range f.Allow {
		see(fmt.Sprintf("%s.allow[%d]", setting, i), name)
	}
	for i, name := range f.Deny {
		see(fmt.Sprintf("%s.deny[%d]", setting, i), name)
	}
}
