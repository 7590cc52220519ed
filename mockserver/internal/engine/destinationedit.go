package engine

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// Hidden replaces a secret value in responses. If a client sends Hidden back, the value stays
// unchanged.
const Hidden = "(hidden)"

// SecretHeader reports whether a header with this name probably contains a secret.
func SecretHeader(name string) bool {
	name = strings.ToLower(name)
	for _, part := range []string{"auth", "cookie", "key", "pass", "secret", "token", "credential"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// HideHeaders returns the endpoints with secret header values replaced with Hidden.
func HideHeaders(endpoints []webhook.Endpoint) []webhook.Endpoint {
	shown := slices.Clone(endpoints)
	for i := range shown {
		shown[i].Headers = hideSecrets(shown[i].Headers, Hidden)
	}
	return shown
}

// HideHeader returns a header with Hidden in place of secret values.
func HideHeader(h http.Header) http.Header { return hideSecrets(h, []string{Hidden}) }

func hideSecrets[H ~map[string]V, V any](header H, hidden V) H {
	shown := maps.Clone(header)
	for name := range shown {
		if SecretHeader(name) {
			shown[name] = hidden
		}
	}
	return shown
}

// RestoreHeaders replaces Hidden with the old values of the same URLs. It does not restore values
// of a changed URL, because a secret must not be sent to another URL.
func RestoreHeaders(endpoints, old []webhook.Endpoint) []webhook.Endpoint {
	shown := slices.Clone(endpoints)
	old = slices.Clone(old)
	for i, e := range shown {
		was := slices.IndexFunc(old, func(o webhook.Endpoint) bool { return o.URL == e.URL })
		if was < 0 {
			continue
		}
		shown[i].Headers = maps.Clone(e.Headers)
		for name, value := range e.Headers {
			if saved, ok := old[was].Headers[name]; ok && value == Hidden {
				shown[i].Headers[name] = saved
			}
		}
		old = slices.Delete(old, was, was+1) // a URL may occur twice
	}
	return shown
}

// KeepWriteKey sets the write key of a relay to the saved write key. It returns an error if the URL has
// changed, because a secret must not be sent to another URL.
func KeepWriteKey(d, old *tracking.Destination) error {
	if old.Type == webhook.TypeRelay && d.Endpoints()[0].URL != old.Endpoints()[0].URL {
		return &webhook.FieldError{Field: "writeKey", Problem: "belongs to the previous endpoint", Hint: "enter the write key for the new endpoint"}
	}
	d.WriteKey = old.WriteKey
	return nil
}

// StillHidden returns a joined error with a [*webhook.FieldError] for each header with the value
// Hidden.
func StillHidden(endpoints []webhook.Endpoint) error {
	var problems []error
	for i, e := range endpoints {
		for _, name := range slices.Sorted(maps.Keys(e.Headers)) {
			if e.Headers[name] == Hidden {
				problems = append(problems, &webhook.FieldError{
					Field:   fmt.Sprintf("webhooks[%d].headers[%q]", i, name),
					Problem: "is hidden and has no previous value for this URL", Hint: "enter its value again",
				})
			}
		}
	}
	return errors.Join(problems...)
}
