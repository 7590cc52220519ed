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
	Call *Call `json:"-"` // the call itself, which must not be kept
}

// Ended says what became of a call at a destination, each time it is decided:
// StatePending where it is to be tried again.
type Ended struct {
	CallID      string    `json:"messageId"`
	Source      string    `json:"source"`
	Destination string    `json:"destination"`
	At          time.Time `json:"at"`
	ReceivedAt  time.Time `json:"receivedAt"` // when the collector took the call
	Attempt     int       `json:"attempt"`
	Outcome
	RetryAt time.Time `json:"retryAt,omitzero"`
	Call    *Call     `json:"-"` // the call itself, which must not be kept
}
