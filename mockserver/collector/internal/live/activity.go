package live

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/export"
)

// An Activity is an entry of the admin API's activity list.
type Activity struct {
	export.Activity
	raw json.RawMessage
}

// UnmarshalJSON implements json.Unmarshaler.
func (a *Activity) UnmarshalJSON(data []byte) error {
	a.raw = bytes.Clone(data)
	return json.Unmarshal(data, &a.Activity)
}

// A Page is a page of activities.
type Page struct {
	Activity []Activity `json:"activity"`
	Next     string     `json:"next"`    // position after the page
	Skipped  int64      `json:"skipped"` // number of omitted activities
}

// A Source is a collector to follow.
type Source interface {
	// Activity waits a few seconds for activities after a position. If newest is true, a page
	// that would exceed limit contains only the newest activities.
	Activity(ctx context.Context, after string, limit int, newest bool) (Page, error)
	// Replay replays the call of an activity to the activity's destination. If the activity has
	// no destination, it replays the call to every destination where it is not pending. Replay
	// returns the destinations that accepted the replay. The error joins the errors of the other
	// destinations.
	Replay(ctx context.Context, a Activity) (string, error)
	// Curl returns a curl command that repeats the request of an activity.
	Curl(ctx context.Context, a Activity) (string, error)
	// Details returns the status, the attempts and the payload of an activity's call, as lines
	// of text.
	Details(ctx context.Context, a Activity) (string, error)
	// Destinations returns all destinations.
	Destinations(ctx context.Context) ([]Destination, error)
}

// A Destination is a destination with its totals.
type Destination struct {
	Name, State                string // State is a state of the admin API, such as "paused"
	Delivered, Failed, Pending int64  // numbers of calls
}
