package analytics

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/seed-45eadc4a/analytics-go/internal/pipeline"
	"github.com/seed-45eadc4a/analytics-go/internal/wire"
)

var (
	// ErrClosed is returned by every call after Close or Shutdown began.
	ErrClosed = pipeline.ErrClosed

	// ErrQueueFull is returned by a call that would exceed Config.MaxBytes or,
	// with a spool, Config.SpoolMaxBytes. The call was not accepted.
	ErrQueueFull = pipeline.ErrQueueFull
)

// ErrSpool is what errors.Is finds in the error of a call that could not be
// written to Config.Spool, or of a spool that cannot be opened. The call was not
// accepted. The error says what the file system said, and errors.Is finds that
// too.
var ErrSpool = pipeline.ErrSpool

var errWriteAlone = errors.New("a message with Write has no map and no Attrs")

// The Field of a FieldError that is not about one field.
const (
	fieldMessage = "message" // the message itself is nil
	fieldIDs     = "anonymousId or userId"
)

// FieldError says that a call lacks a field, or that a field holds what cannot
// be sent. The call was not accepted.
//
// errors.Is matches a *FieldError target whose fields, where not empty, are
// the same.
type FieldError struct {
	// Kind is the kind of the call, such as "track".
	Kind string
	// Field is the field as it is named on the wire, such as "event", or the
	// path of a value in it, such as "properties.cart.total".
	Field string
	// Err says what is wrong with the value; it is nil for a missing one.
	Err error
}

func missing(kind kind, field string) error { return &FieldError{Kind: kind.String(), Field: field} }

// valueFieldError returns the error of a call with a value, in the map called key, that
// cannot be encoded.
func valueFieldError(kind kind, key string, err error) error {
	if errors.Is(err, wire.ErrTooLarge) {
		return &TooLargeError{Kind: kind.String(), Field: key, Size: wire.MaxText + 1, Limit: MaxCallBytes}
	}
	if v := (*wire.ValueError)(nil); errors.As(err, &v) {
		return &FieldError{Kind: kind.String(), Field: v.Path(), Err: v.Err}
	}
	return &FieldError{Kind: kind.String(), Field: key, Err: err}
}

// Error returns the text that version 2 had.
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

// Is reports whether target is a *FieldError of the same kind and field; an
// empty one in target matches any.
func (e *FieldError) Is(target error) bool {
	t, ok := target.(*FieldError)
	return ok && (t.Kind == "" || t.Kind == e.Kind) && (t.Field == "" || t.Field == e.Field)
}

// TooLargeError says that one call is larger than the service takes. The call
// was not accepted.
type TooLargeError struct {
	Kind  string // the kind of the call, such as "track"
	Field string // the largest one, as it is named on the wire, such as "properties"
	Size  int    // bytes of the call as JSON; one of more than 16 MB is not encoded further
	Limit int    // bytes allowed: MaxCallBytes
}

func (e *TooLargeError) Error() string {
	size := fmt.Sprint(e.Size)
	if e.Size > wire.MaxText {
		size = fmt.Sprintf("more than %d", wire.MaxText)
	}
	return fmt.Sprintf("analytics: %s: the call is %s bytes as JSON, over the limit of %d; its largest field is %s", e.Kind, size, e.Limit, e.Field)
}

// tooLarge returns the error of a call that has been encoded.
func tooLarge(kind kind, encoded []byte) error {
	e := &TooLargeError{Kind: kind.String(), Size: len(encoded), Limit: MaxCallBytes}
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(encoded, &fields) // the client wrote it
	most := 0
	for name, value := range fields {
		if len(value) > most {
			e.Field, most = name, len(value)
		}
	}
	return e
}

// UndeliveredError is returned by Flush, Shutdown and Close when calls were not
// delivered. errors.Is and errors.As look into Err and Cause.
type UndeliveredError struct {
	Dropped Drops // calls given up since an earlier Flush returned, by reason
	Pending int64 // calls still queued when the context ended, or left in Config.Spool
	Err     error // of the context, if it ended the wait
	Cause   error // of the latest attempt that failed; nil if none did

	spooled bool // Pending are in Config.Spool
}

// Calls is the number of calls that were not delivered.
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

// Unwrap returns Err and Cause, where they are not nil.
func (e *UndeliveredError) Unwrap() (errs []error) {
	for _, err := range []error{e.Err, e.Cause} {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// DropError is a Result's error: why an accepted call was given up.
type DropError struct {
	Reason   DropReason
	Attempts int   // requests made with the call in its last batch
	Status   int   // the last answer's HTTP status, 0 if there was none
	Err      error // of the last attempt, or of the spool, or nil
}

func (e *DropError) Error() string {
	return "analytics: dropped: " + (&pipeline.Drop{Reason: pipeline.Reason(e.Reason), Attempts: e.Attempts, Err: e.Err}).String()
}

// Unwrap returns Err.
func (e *DropError) Unwrap() error { return e.Err }

// A kind is that of a call. It is a number, and no string, so that what keeps it does not
// keep the message, as far as the compiler's escape analysis knows.
type kind uint8

const (
	kindNone kind = iota // of a call that is nil
	kindAlias
	kindGroup
	kindIdentify
	kindPage
	kindScreen
	kindTrack
)

var kindNames = [...]string{"call", "alias", "group", "identify", "page", "screen", "track"}

// String returns k as it is on the wire.
func (k kind) String() string { return kindNames[k] }
