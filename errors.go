package analytics

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/seed-45eadc4a/analytics-go/internal/pipeline"
	"github.com/seed-45eadc4a/analytics-go/internal/wire"
)

var (
	// ErrClosed is returned by calls after Close or Shutdown.
	ErrClosed = pipeline.ErrClosed

	// ErrQueueFull is returned by a call that would exceed Config.MaxBytes or, with a
	// spool, Config.SpoolMaxBytes. The call was not accepted.
	ErrQueueFull = pipeline.ErrQueueFull
)

// ErrSpool is wrapped by the error of a call that could not be written to Config.Spool,
// and by the error of a spool that cannot be opened. The call was not accepted. The error
// also wraps the error of the file system.
var ErrSpool = pipeline.ErrSpool

var errWriteAlone = errors.New("the field Write cannot be combined with a map or Attrs")

// Values of FieldError.Field that do not name a single field.
const (
	fieldMessage = "message" // the message is nil
	fieldIDs     = "anonymousId or userId"
)

// FieldError reports a call with a missing or invalid field. The call was not accepted.
//
// errors.Is matches a target *FieldError whose Kind and Field each match those of the error
// or are empty.
type FieldError struct {
	// Kind is the kind of the call, such as "track".
	Kind string
	// Field is the name of the field on the wire, such as "event", or the path of a value
	// in it, such as "properties.cart.total".
	Field string
	// Err is the problem with the value. It is nil if the field is missing.
	Err error
}

func missing(kind kind, field string) error { return &FieldError{Kind: kind.String(), Field: field} }

// valueFieldError returns the error for a value that cannot be encoded. key is the name of the
// map that contains the value.
func valueFieldError(kind kind, key string, err error) error {
	if errors.Is(err, wire.ErrTooLarge) {
		return &TooLargeError{Kind: kind.String(), Field: key, Size: wire.MaxText + 1, Limit: MaxCallBytes}
	}
	if v := (*wire.ValueError)(nil); errors.As(err, &v) {
		return &FieldError{Kind: kind.String(), Field: v.Path(), Err: v.Err}
	}
	return &FieldError{Kind: kind.String(), Field: key, Err: err}
}

// Error returns the same text as version 2 for a missing field.
func (e *FieldError) Error() string {
	switch {
	case e.Err != nil:
		return fmt.Sprintf("analytics: %s: %s", e.Kind, wire.Clip(e.Field+": "+e.Err.Error(), wire.MaxRepeated))
	case e.Field == fieldMessage:
		return fmt.Sprintf("analytics: %s: the message is nil", e.Kind)
	case e.Field == fieldIDs:
		return "You must pass either an 'anonymousId' or 'userId'."
	case e.Field == "event":
		return "You must pass 'event'."
	}
	return fmt.Sprintf("You must pass a '%s'.", e.Field)
}

// Unwrap returns Err.
func (e *FieldError) Unwrap() error { return e.Err }

// Is reports whether target is a *FieldError whose Kind and Field each match those of e or
// are empty.
func (e *FieldError) Is(target error) bool {
	t, ok := target.(*FieldError)
	return ok && (t.Kind == "" || t.Kind == e.Kind) && (t.Field == "" || t.Field == e.Field)
}

// TooLargeError reports a call that exceeds MaxCallBytes. The call was not accepted.
type TooLargeError struct {
	Kind  string // the kind of the call, such as "track"
	Field string // the JSON name of the largest field, such as "properties"
	Size  int    // bytes of the call as JSON; encoding stops after 16 MB
	Limit int    // MaxCallBytes
}

func (e *TooLargeError) Error() string {
	size := fmt.Sprint(e.Size)
	if e.Size > wire.MaxText {
		size = fmt.Sprintf("more than %d", wire.MaxText)
	}
	return fmt.Sprintf("analytics: %s: the call is %s bytes as JSON, over the limit of %d; its largest field is %s", e.Kind, size, e.Limit, e.Field)
}

// tooLarge returns the error for an encoded call that is too large.
func tooLarge(kind kind, encoded []byte) error {
	e := &TooLargeError{Kind: kind.String(), Size: len(encoded), Limit: MaxCallBytes}
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(encoded, &fields) // cannot fail, because the client has encoded the call
	most := 0
	for name, value := range fields {
		if len(value) > most {
			e.Field, most = name, len(value)
		}
	}
	return e
}

// UndeliveredError is returned by Flush, Shutdown and Close if calls were not delivered.
// It wraps Err and Cause.
type UndeliveredError struct {
	Dropped Drops // dropped calls that no previous Flush has reported
	Pending int64 // calls that were still queued, or that remain in Config.Spool
	Err     error // the error of the context, if the context stopped the wait
	Cause   error // the error of the latest failed attempt, or nil

	spooled bool // the Pending calls are in Config.Spool
}

// Calls returns the number of calls that were not delivered.
func (e *UndeliveredError) Calls() int64 { return e.Dropped.Total() + e.Pending }

func (e *UndeliveredError) Error() string {
	s := "analytics: " + pipeline.CountCalls(e.Calls()) + " not delivered"
	switch {
	case e.Pending > 0 && e.spooled:
		s += fmt.Sprintf(" (%d kept in the spool)", e.Pending)
	case e.Pending > 0:
		s += fmt.Sprintf(" (%d still queued)", e.Pending)
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	if e.Cause != nil {
		s += ": the latest failure: " + e.Cause.Error()
	}
	return s
}

// Unwrap returns Err and Cause, and omits nil errors.
func (e *UndeliveredError) Unwrap() []error {
	return slices.DeleteFunc([]error{e.Err, e.Cause}, func(err error) bool { return err == nil })
}

// DropError is the error of a Result for a dropped call.
type DropError struct {
	Reason   DropReason
	Attempts int   // number of times that the call's last batch was sent
	Status   int   // the status of the last response, or 0 if there was none
	Err      error // the error of the last attempt or of the spool, or nil
}

func (e *DropError) Error() string {
	return "analytics: dropped: " + (&pipeline.Drop{Reason: pipeline.Reason(e.Reason), Attempts: e.Attempts, Err: e.Err}).String()
}

// Unwrap returns Err.
func (e *DropError) Unwrap() error { return e.Err }
