package tracking

import (
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// An Attempt is one request to a webhook.
type Attempt struct {
	CallID      string `json:"messageId"`
	Source      string `json:"source"`
	Destination string `json:"destination"`
	webhook.Attempt
	// Late is true if the webhook accepted the call after another webhook had accepted it.
	Late bool  `json:"-"`
	Call *Call `json:"-"` // the call; observers must not retain it
}

// Ended reports the result of an attempt at a call for one destination. If the call will be retried,
// the State is StatePending.
type Ended struct {
	CallID      string    `json:"messageId"`
	Source      string    `json:"source"`
	Destination string    `json:"destination"`
	At          time.Time `json:"at"`
	ReceivedAt  time.Time `json:"receivedAt"` // time when the collector received the call
	Attempt     int       `json:"attempt"`
	Outcome
	RetryAt time.Time `json:"retryAt,omitzero"`
	// Shared is true if the call was part of a batch and the result of another call represents the
	// request, or if the call was not sent.
	Shared bool  `json:"shared,omitempty"`
	Call   *Call `json:"-"` // the call; observers must not retain it
}
