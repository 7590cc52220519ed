package settings

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// maxNameChars limits the names of sources and destinations, which journals use in subjects
// and paths.
const maxNameChars = 100

// CheckName returns an error if a name is not valid in a path or a line of text.
func CheckName(name string) error {
	problem := ""
	switch {
	case strings.TrimSpace(name) == "":
		problem = "is empty"
	case utf8.RuneCountInString(name) > maxNameChars:
		problem = fmt.Sprintf("has more than %d characters", maxNameChars)
	case strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) || strings.TrimSpace(name) != name:
		problem = "contains an invisible character"
	default:
		return nil
	}
	return &webhook.FieldError{Field: "name", Problem: problem, Hint: fmt.Sprintf("use 1 to %d printable characters", maxNameChars)}
}

// SourceNamed returns a function for package slices that selects the source with a name.
func SourceNamed(name string) func(tracking.Source) bool {
	return func(s tracking.Source) bool { return s.Name == name }
}

// DestinationNamed is SourceNamed for destinations.
func DestinationNamed(name string) func(tracking.Destination) bool {
	return func(d tracking.Destination) bool { return d.Name == name }
}

// CheckKey returns the problem with a write key that the client refuses, or nil. The error
// does not repeat the key.
func CheckKey(field, key string) *webhook.FieldError {
	if strings.Contains(key, ":") {
		return &webhook.FieldError{Field: field, Problem: "contains a colon, which Basic authentication cannot transmit", Hint: "use letters and digits"}
	}
	return CheckSecret(field, key)
}

// CheckSecret returns the problem with a token, write key or shared secret that contains
// invisible characters, or nil. Editors, shells and files add such characters, and the other
// side then has a different secret. The error does not repeat the secret.
func CheckSecret(field, secret string) *webhook.FieldError {
	switch {
	case strings.TrimSpace(secret) != secret:
		return &webhook.FieldError{Field: field, Problem: "begins or ends with white space", Hint: "remove it; a value from a file may end with a line break"}
	case !utf8.ValidString(secret):
		return &webhook.FieldError{Field: field, Problem: "is not UTF-8", Hint: "use letters and digits"}
	}
	for _, r := range secret {
		if !unicode.IsPrint(r) {
			return &webhook.FieldError{Field: field, Problem: fmt.Sprintf("contains the invisible character %U", r), Hint: "remove it, or type the value again"}
		}
	}
	return nil
}
