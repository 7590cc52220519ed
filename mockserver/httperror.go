package mockserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// An httpError is an error as operators are told of it: by the admin API as this JSON
// object, by the pages in a sentence.
type httpError struct {
	Status  int            `json:"-"`
	Code    string         `json:"code"`
	Message string         `json:"message"` // what was wrong and what would be right
	Fields  []fieldMistake `json:"fields,omitempty"`
}

// A fieldMistake is a member of the request's body that cannot be used.
type fieldMistake struct {
	Field   string `json:"field"` // as in webhooks[0].url
	Problem string `json:"problem"`
	Hint    string `json:"mend"` // what would be right
}

// Error implements error.
func (e *httpError) Error() string { return e.Message }

// write answers a request with the error.
func (e *httpError) write(w http.ResponseWriter) { writeJSON(w, e.Status, e) }

// httpErrorf returns an error with a formatted message.
func httpErrorf(status int, code, format string, args ...any) *httpError {
	return &httpError{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

// httpErrorOf returns err as it is answered. Errors that nobody expected become a 500.
func httpErrorOf(err error) *httpError {
	var own *httpError
	if errors.As(err, &own) {
		return own
	}
	fail := func(status int, code string) *httpError {
		return httpErrorf(status, code, "%s", strings.TrimPrefix(err.Error(), "mockserver: "))
	}
	if fields := webhook.FieldErrors(err); len(fields) > 0 {
		e := fail(http.StatusUnprocessableEntity, "invalid")
		for _, f := range fields {
			e.Fields = append(e.Fields, fieldMistake{f.Field, f.Problem, f.Mend})
		}
		return e
	}
	switch {
	case errors.Is(err, ErrUnknown), errors.Is(err, ErrNotAttached):
		return fail(http.StatusNotFound, "not_found")
	case errors.Is(err, ErrExists):
		return fail(http.StatusConflict, "exists")
	case errors.Is(err, ErrReadOnly):
		return fail(http.StatusConflict, "read_only")
	case errors.Is(err, ErrSettingsChanged):
		return fail(http.StatusConflict, "changed_meanwhile")
	case errors.Is(err, ErrEmptyList):
		return fail(http.StatusUnprocessableEntity, "empty_list")
	case errors.Is(err, ErrTooManySyncs):
		return fail(http.StatusTooManyRequests, "too_many_syncs")
	case errors.Is(err, ErrClosed), errors.Is(err, ErrJournalClosed), errors.Is(err, ErrJournalFull):
		return fail(http.StatusServiceUnavailable, "unavailable")
	}
	return fail(http.StatusInternalServerError, "internal")
}

// writeJSON answers a request with JSON that nobody may keep.
func writeJSON(w http.ResponseWriter, status int, body any) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(body)
}
