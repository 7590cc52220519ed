package settings

import (
	"errors"

	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// FieldErrors returns the [*webhook.FieldError]s that err joins or wraps, in their order.
func FieldErrors(err error) (all []*webhook.FieldError) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			all = append(all, FieldErrors(e)...)
		}
		return all
	}
	if field := (*webhook.FieldError)(nil); errors.As(err, &field) {
		return []*webhook.FieldError{field}
	}
	return nil
}
