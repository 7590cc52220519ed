package analytics

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/seed-45eadc4a/analytics-go/internal/wire"
)

// ConfigError is returned by NewWithConfig for a field of its Config that cannot be used.
type ConfigError struct {
	Reason string      // what is wrong with the value
	Field  string      // the name of the field, such as "Interval"
	Value  interface{} // what it was set to
}

// Error names the field, its value and what is wrong with it.
func (e ConfigError) Error() string {
	return fmt.Sprintf("analytics.NewWithConfig: %s (analytics.Config.%s: %s)", e.Reason, e.Field, repeated(e.Value, wire.MaxRepeated/4))
}

// FieldError is returned by Enqueue and Validate for a message that lacks a field.
type FieldError struct {
	Type  string      // the type of the message, such as "analytics.Track"
	Name  string      // the name of the field, such as "UserId"
	Value interface{} // what it is set to
}

// Error names the field and its value.
func (e FieldError) Error() string {
	return fmt.Sprintf("%s.%s: invalid field value: %s", e.Type, e.Name, repeated(e.Value, wire.MaxRepeated))
}

// repeated returns v as an error repeats it: in Go syntax, or its type if it has parts,
// which may be many and form a cycle.
func repeated(v interface{}, most int) string {
	format := "%#v"
	switch reflect.ValueOf(v).Kind() {
	case reflect.Array, reflect.Map, reflect.Pointer, reflect.Slice, reflect.Struct:
		format = "%T"
	}
	return wire.Clip(fmt.Sprintf(format, v), most)
}

var (
	// ErrClosed is returned by Enqueue after Close began, and by each Close but the first.
	ErrClosed = errors.New("the client was already closed")

	// ErrTooManyRequests says that 32 MiB of calls wait for the collector, so that no
	// more are taken. Config.Callback gets this error; Enqueue returns one that wraps it.
	ErrTooManyRequests = errors.New("too many requests are already in-flight")

	// ErrMessageTooBig says that a message is over 32 KB, 32,768 bytes, as JSON.
	// Config.Callback gets this error; Enqueue returns one that wraps it, as well as a
	// *TooLargeError of the root package, which tells the size and the largest field.
	ErrMessageTooBig = errors.New("the message exceeds the maximum allowed size")
)
