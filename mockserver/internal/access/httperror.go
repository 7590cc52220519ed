package access

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/users"
)

// An Error is an error response for an operator. The admin API returns it as a JSON object, and pages
// show its message.
type Error struct {
	Status  int            `json:"-"`
	Code    string         `json:"code"`
	Message string         `json:"message"` // the problem and how to fix it
	Fields  []fieldMistake `json:"fields,omitempty"`
}

// A fieldMistake describes an invalid field of a request body.
type fieldMistake struct {
	Field   string `json:"field"` // path of the field, such as webhooks[0].url
	Problem string `json:"problem"`
	Hint    string `json:"mend"` // how to fix it
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// Write writes the error as a response.
func (e *Error) Write(w http.ResponseWriter, r *http.Request) { WriteJSON(w, r, e.Status, e) }

func Errorf(status int, code, format string, args ...any) *Error {
	return &Error{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

// ErrorOf converts an error to a response. The status of an unknown error is 500.
func ErrorOf(err error) *Error {
	var own *Error
	if errors.As(err, &own) {
		return own
	}
	fail := func(status int, code string) *Error {
		return Errorf(status, code, "%s", strings.TrimPrefix(err.Error(), "mockserver: "))
	}
	if fields := settings.FieldErrors(err); len(fields) > 0 {
		e := fail(http.StatusUnprocessableEntity, "invalid")
		for _, f := range fields {
			e.Fields = append(e.Fields, fieldMistake{f.Field, f.Problem, f.Hint})
		}
		return e
	}
	switch {
	case errors.Is(err, state.ErrUnknown), errors.Is(err, journal.ErrNotAttached):
		return fail(http.StatusNotFound, "not_found")
	case errors.Is(err, state.ErrExists):
		return fail(http.StatusConflict, "exists")
	case errors.Is(err, state.ErrNotReplayable):
		return fail(http.StatusConflict, "pending")
	case errors.Is(err, state.ErrReplayedRecently):
		return fail(http.StatusConflict, "replayed_recently")
	case errors.Is(err, state.ErrReadOnly):
		return fail(http.StatusConflict, "read_only")
	case errors.Is(err, state.ErrSettingsChanged):
		return fail(http.StatusConflict, "changed_meanwhile")
	case errors.Is(err, users.ErrEmptyList):
		return fail(http.StatusUnprocessableEntity, "empty_list")
	case errors.Is(err, users.ErrTooManySyncs):
		return fail(http.StatusTooManyRequests, "too_many_syncs")
	case errors.Is(err, state.ErrClosed), errors.Is(err, journal.ErrClosed), errors.Is(err, journal.ErrFull), errors.Is(err, journal.ErrNoResponse):
		return fail(http.StatusServiceUnavailable, "unavailable")
	case errors.Is(err, journal.ErrUnwritable):
		return fail(http.StatusServiceUnavailable, "store_unwritable")
	}
	return fail(http.StatusInternalServerError, "internal")
}

// IsFailure reports whether err is a failure of the collector, which should be logged. It returns false
// if the request ended because its client disconnected.
func IsFailure(r *http.Request, err error) bool {
	if errors.Is(err, context.Canceled) && r.Context().Err() != nil {
		return false
	}
	return ErrorOf(err).Status >= http.StatusInternalServerError
}

// WriteJSON writes a JSON response that must not be cached.
func WriteJSON(w http.ResponseWriter, r *http.Request, status int, body any) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	WriteBody(w, r, status, append(text.JSON(body, ""), '\n'))
}
