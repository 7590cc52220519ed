package export

import (
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// Kinds of activity.
const (
	KindCall     = "call"     // accepted call
	KindAttempt  = "attempt"  // webhook request
	KindOutcome  = "outcome"  // delivery outcome
	KindRejected = "rejected" // rejected call
	KindRefused  = "refused"  // refused request
)

// An Activity is the arrival of a call or a request, an attempt or an outcome.
type Activity struct {
	Kind        string    `json:"kind"`
	At          time.Time `json:"at"`
	Ref         string    `json:"ref"` // identifies the call page, /calls/{ref}
	Source      string    `json:"source,omitempty"`
	MessageID   string    `json:"messageId,omitempty"`
	Type        string    `json:"type,omitempty"`
	Title       string    `json:"title,omitempty"`
	UserID      string    `json:"userId,omitempty"`
	AnonymousID string    `json:"anonymousId,omitempty"`

	// The following field is only set for calls.
	NotAsPlanned string `json:"notAsPlanned,omitempty"`

	// The following fields are only set for attempts and outcomes.
	Destination string    `json:"destination,omitempty"`
	Attempt     int       `json:"attempt,omitempty"`
	URL         string    `json:"url,omitempty"`
	Status      int       `json:"status,omitempty"`
	DurationMS  float64   `json:"durationMs,omitempty"`
	Verdict     string    `json:"verdict,omitempty"`
	Error       string    `json:"error,omitempty"`
	Answer      string    `json:"answer,omitempty"` // first line of the response
	State       string    `json:"state,omitempty"`
	Reason      string    `json:"reason,omitempty"`
	RetryAt     time.Time `json:"retryAt,omitzero"`
	Attempted   bool      `json:"attempted,omitempty"` // whether an attempt reports the same outcome

	// The following fields are only set for rejections and refusals.
	Code    tracking.Code `json:"code,omitempty"`
	Message string        `json:"message,omitempty"`
	Hint    string        `json:"hint,omitempty"`
	Field   string        `json:"field,omitempty"`
	Count   int           `json:"count,omitempty"` // number of grouped requests
}
