package ingest

import (
	"fmt"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// answer is the body of every response of the tracking API.
type answer struct {
	Success bool                 `json:"success"`
	Code    tracking.Code        `json:"code,omitempty"`
	Message string               `json:"message,omitempty"`
	Error   string               `json:"error,omitempty"` // the same as Message, for libraries that look here
	Calls   []tracking.Rejection `json:"calls,omitempty"`
}

// requestError is a request that was refused as a whole.
type requestError struct {
	status     int
	code       tracking.Code
	message    string
	retryAfter time.Duration
	calls      []tracking.Rejection
	body       []byte // of the request, see event.Refusal; nil where it was not read
	library    string // that made the first call
}

func (e *requestError) Error() string { return string(e.code) + ": " + e.message }

func refuse(status int, code tracking.Code, format string, args ...any) *requestError {
	return &requestError{status: status, code: code, message: fmt.Sprintf(format, args...)}
}

// Headers and body of the commonest answer.
var (
	contentJSON = []string{"application/json"}
	noSniff     = []string{"nosniff"}
	successes   = []byte(`{"success": true}`)
)
