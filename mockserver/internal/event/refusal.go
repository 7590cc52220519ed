package event

import (
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A Refusal is a request to the tracking API that was refused as a whole.
type Refusal struct {
	At      time.Time     `json:"at"`
	Method  string        `json:"method"`
	Path    string        `json:"path"`             // its first 200 characters, without a write key
	Source  string        `json:"source,omitempty"` // whose write key its header had; empty where that is not known
	Status  int           `json:"status"`           // of the answer
	Code    tracking.Code `json:"code"`
	Message string        `json:"message"` // what was wrong and what would be right
	// Count is how many requests it stands for, of which it tells of the newest.
	// Those without a known write key come from scanners too, and are put together by
	// code and minute.
	Count int `json:"count"`
}
