package tracking

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// A Source is a program, a website or an app that sends calls. Its write key identifies it.
type Source struct {
	Name     string `json:"name"`
	WriteKey string `json:"writeKey"`
	// CallsPerSecond limits the average rate of the source. Requests above it get 429
	// responses. Defaults to Limits.CallsPerSecond.
	CallsPerSecond int `json:"callsPerSecond,omitempty"`
	// Redact changes calls before anything is stored or checked against a tracking plan. Lists of
	// users and deletion requests contain the IDs before redaction.
	Redact Redaction `json:"redact,omitzero"`
}

// A Destination forwards the calls of its sources to up to five webhooks, or to another collector.
type Destination struct {
	// Name identifies the destination.
	Name string `json:"name"`
	// Sources are the names of the connected sources. An empty list connects all sources.
	Sources []string `json:"sources,omitempty"`
	// Types filters calls by type: alias, group, identify, page, screen, track or delete. A
	// call of type delete is the notification of a deletion request; only Deny can exclude it.
	// Defaults to all types.
	Types Filter `json:"types,omitzero"`
	// Events filters track calls by event name. A name that ends in * is a prefix. Defaults
	// to all events.
	Events Filter `json:"events,omitzero"`
	// MaxPerSecond is the maximum number of calls per second, including retries. They are evenly
	// spaced: 0.5 means one every two seconds. Each collector of a cluster applies the limit separately. Defaults to no
	// limit.
	MaxPerSecond float64 `json:"maxPerSecond,omitempty"`
	// Concurrency is the maximum number of requests in flight to each webhook, up to 1,000. With
	// batches, it defaults to 4. Otherwise, if it is 0, the collector's setting (default 64) limits the
	// calls in flight, and up to 1,024 further requests may be in flight to webhooks that respond after
	// another one has accepted the call.
	Concurrency int `json:"concurrency,omitempty"`
	// Disabled reports that the destination gets no calls.
	Disabled bool `json:"disabled,omitempty" yaml:"-"`
	// KeepWhileDisabled makes calls wait while the destination is disabled, as if it were paused.
	// Otherwise they are filtered.
	KeepWhileDisabled bool `json:"keepWhileDisabled,omitempty"`
	// Paused reports that no attempts are made. The calls of the destination stay pending.
	Paused bool `json:"paused,omitempty" yaml:"-"`
	// Redact changes calls before they are sent.
	Redact Redaction `json:"redact,omitzero"`
	// Transform is a program that changes the webhook bodies, after Redact and before the signature,
	// except for deletion notifications. The collector accepts jq programs; see
	// [github.com/seed-45eadc4a/analytics-go/mockserver.Config] for tests. Optional.
	Transform string `json:"transform,omitempty"`
	// Ordering sets the delivery order.
	Ordering
	// GoneSince is the time when all webhooks had responded with 410 (Gone). After it, calls fail
	// without a request. The collector sets it.
	GoneSince time.Time `json:"goneSince,omitzero" yaml:"-"`
	// Settings contains the webhooks, their headers and the shared secret, or the endpoint and the
	// write key of another collector.
	webhook.Settings
}

// Receives reports whether the calls of the destination's sources are delivered, now or when the
// destination is enabled.
func (d *Destination) Receives() bool { return !d.Disabled || d.KeepWhileDisabled }

// A Filter selects calls by name. An empty Allow selects all names. Deny takes precedence.
type Filter struct {
	Allow []string `json:"allow,omitempty"`
	Deny  []string `json:"deny,omitempty"`
}

// Validate returns a joined error with a [*webhook.FieldError] for each invalid setting, or nil. It
// does not check Name and Sources.
func (d Destination) Validate() error {
	problems := []error{d.problem(), d.Settings.Validate()}
	d.Types.each("types", func(field, name string) {
		if !slices.Contains(fields.StoredTypes, name) {
			problems = append(problems, &webhook.FieldError{Field: field, Problem: fmt.Sprintf("is %q, which is not a type of call", name), Hint: "use some of " + strings.Join(fields.StoredTypes, ", ")})
		}
	})
	d.Events.each("events", func(field, name string) {
		switch star := strings.IndexByte(name, '*'); {
		case strings.TrimSpace(name) == "":
			problems = append(problems, &webhook.FieldError{Field: field, Problem: "is empty", Hint: "name an event, or omit it"})
		case star >= 0 && star < len(name)-1:
			problems = append(problems, &webhook.FieldError{Field: field, Problem: fmt.Sprintf("is %q, with a * that is not at its end", name), Hint: `use * only as the last character, as in "Order *"`})
		}
	})
	if d.Transform != "" && d.Type == webhook.TypeRelay {
		problems = append(problems, &webhook.FieldError{Field: "transform", Problem: `has no effect with type "relay"`, Hint: `set type to "webhooks", or remove it`})
	}
	if n := d.MaxPerSecond; n != 0 && !(n >= minPerSecond && n <= maxPerSecond) {
		problems = append(problems, &webhook.FieldError{Field: "maxPerSecond", Problem: fmt.Sprintf("is %v", n), Hint: "use a number from 0.001 to 1,000,000, or omit it for no limit"})
	}
	if n := d.Concurrency; n < 0 || n > maxConcurrency {
		problems = append(problems, &webhook.FieldError{Field: "concurrency", Problem: fmt.Sprintf("is %d", n), Hint: "use a whole number from 1 to 1,000, or omit it"})
	}
	return errors.Join(append(problems, d.Redact.Problems()...)...)
}

// Limits of MaxPerSecond and Concurrency.
const (
	minPerSecond, maxPerSecond = 0.001, 1_000_000
	maxConcurrency             = 1000
)

// each calls see for each name in the filter, with the path of its field.
func (f Filter) each(setting string, see func(field, name string)) {
	for i, name := range f.Allow {
		see(fmt.Sprintf("%s.allow[%d]", setting, i), name)
	}
	for i, name := range f.Deny {
		see(fmt.Sprintf("%s.deny[%d]", setting, i), name)
	}
}
