package engine

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// Hidden stands for a value that is not shown. Where it is sent back, the value
// stays as it is.
const Hidden = "(hidden)"

// SecretHeader reports, by its name, whether the value of a header is a secret.
func SecretHeader(name string) bool {
	name = strings.ToLower(name)
	for _, part := range []string{"auth", "cookie", "key", "pass", "secret", "token", "credential"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// HideHeaders copies endpoints without the secrets of their headers, for people to see.
func HideHeaders(endpoints []webhook.Endpoint) []webhook.Endpoint {
	shown := slices.Clone(endpoints)
	for i := range shown {
		shown[i].Headers = maps.Clone(shown[i].Headers)
		for name := range shown[i].Headers {
			if SecretHeader(name) {
				shown[i].Headers[name] = Hidden
			}
		}
	}
	return shown
}

// RestoreHeaders restores the values that HideHeaders took out, for those URLs that stay
// as they are: a secret must not go to another URL. A value that it does not know
// stays hidden.
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
		old = slices.Delete(old, was, was+1) // a URL may be there twice
	}
	return shown
}

// StillHidden returns a [*webhook.FieldError] for each header that RestoreHeaders had
// no value for.
func StillHidden(endpoints []webhook.Endpoint) error {
	var problems []error
	for i, e := range endpoints {
		for _, name := range slices.Sorted(maps.Keys(e.Headers)) {
			if e.Headers[name] == Hidden {
				problems = append(problems, &webhook.FieldError{
					Field:   fmt.Sprintf("webhooks[%d].headers[%q]", i, name),
					Problem: "is hidden, and not known for this URL", Hint: "send its value",
				})
			}
		}
	}
	return errors.Join(problems...)
}
