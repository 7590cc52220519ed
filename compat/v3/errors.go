package analytics

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/seed-45eadc4a/analytics-go/internal/wire"
)

// ConfigError is the error of NewWithConfig for an invalid field.
type ConfigError struct {
	Reason string      // a description of the problem
	Field  string      // the name of the field, such as "Interval"
	Value  interface{} // the invalid value
}

// Error returns the problem with the field's name and value.
func (e ConfigError) Error() string {
	return fmt.Sprintf("analytics.NewWithConfig: %s (analytics.Config.%s: %s)", e.Reason, e.Field, repeated(e.Value, wire.MaxRepeated/4))
}

// FieldError is the error of Enqueue and Validate for a missing field.
type FieldError struct {
	Type  string      // the message's type, such as "analytics.Track"
	Name  string      // the field's name, such as "UserId"
	Value interface{} // the field's value
}

// Error returns the field's name and value.
func (e FieldError) Error() string {
	return fmt.Sprintf("%s.%s: invalid field value: %s", e.Type, e.Name, repeated(e.Value, wire.MaxRepeated))
}

// repeated formats v for an error. It uses Go syntax for simple values. For composite values,
// which can be large or cyclic, it returns only the type.
func repeated(v interface{}, most int) string {
	format := "%#v"
	switch reflect.ValueOf(v).Kind() {
	case reflect.Array, reflect.Map, reflect.Pointer, reflect.Slice, reflect.Struct:
		format = "%T"
	}
	return wire.Clip(fmt.Sprintf(format, v), most)
}

var (
	// ErrClosed is the error of Enqueue after Close was called, and of further calls of
	// Close.
	ErrClosed = errors.New("the client was already closed")

	// ErrTooManyRequests means that 32 MiB of calls wait for the collector.
	// Config.Callback receives this error; Enqueue returns an error that wraps it.
	ErrTooManyRequests = errors.New("too many requests are already in-flight")

	// ErrMessageTooBig means that the message's JSON is over 32 KB, 32,768 bytes.
	// Config.Callback receives this error; Enqueue returns an error that wraps it and the
	// root package's *TooLargeError, which contains the size and the largest field.
	ErrMessageTooBig = errors.New("the message exceeds the maximum allowed size")
)
