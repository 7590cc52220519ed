package settings

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// CheckKey returns the problem with a write key that the client refuses, or nil. The error
// does not repeat the key.
func CheckKey(field, key string) *webhook.FieldError {
	switch {
	case strings.TrimSpace(key) != key:
		return &webhook.FieldError{Field: field, Problem: "begins or ends with white space", Hint: "remove it; a key from a file may end with a line break"}
	case !utf8.ValidString(key), strings.ContainsFunc(key, unicode.IsControl):
		return &webhook.FieldError{Field: field, Problem: "contains a control character or is not UTF-8", Hint: "use letters and digits"}
	}
	return nil
}
