package webhook

import "errors"

// FieldErrors returns the [*FieldError]s that err joins or wraps, in their order.
func FieldErrors(err error) (all []*FieldError) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			all = append(all, FieldErrors(e)...)
		}
		return all
	}
	if field := (*FieldError)(nil); errors.As(err, &field) {
		return []*FieldError{field}
	}
	return nil
}
