package live

import (
	"bytes"
	"context"
	"encoding/json"
	"time"
)

// An Activity is one thing that a collector did, as its admin API tells of it.
type Activity struct {
	Kind         string    `json:"kind"`
	At           time.Time `json:"at"`
	Ref          string    `json:"ref"`
	Source       string    `json:"source"`
	MessageID    string    `json:"messageId"`
	Type         string    `json:"type"`
	Title        string    `json:"title"`
	UserID       string    `json:"userId"`
	AnonymousID  string    `json:"anonymousId"`
	NotAsPlanned string    `json:"notAsPlanned"`
	Destination  string    `json:"destination"`
	Attempt      int       `json:"attempt"`
	URL          string    `json:"url"`
	Status       int       `json:"status"`
	DurationMS   float64   `json:"durationMs"`
	Verdict      string    `json:"verdict"`
	Error        string    `json:"error"`
	Answer       string    `json:"answer"`
	State        string    `json:"state"`
	Reason       string    `json:"reason"`
	RetryAt      time.Time `json:"retryAt"`
	Attempted    bool      `json:"attempted"`
	Code         string    `json:"code"`
	Message      string    `json:"message"`
	Hint         string    `json:"hint"`
	Count        int       `json:"count"`

	raw json.RawMessage
}

// UnmarshalJSON implements json.Unmarshaler.
func (a *Activity) UnmarshalJSON(data []byte) error {
	type plain Activity
	a.raw = bytes.Clone(data)
	return json.Unmarshal(data, (*plain)(a))
}

// A Page is what happened since a place.
type Page struct {
	Activity []Activity `json:"activity"`
	Next     string     `json:"next"`    // go on from here
	Skipped  int64      `json:"skipped"` // how many more there were
}

// A Source is a collector that is followed.
type Source interface {
	// Activity waits until something has happened since a place, or for some seconds. Where
	// newest is set and there is more than limit, the page has the newest of it.
	Activity(ctx context.Context, after string, limit int, newest bool) (Page, error)
	// Replay replays the call of an activity to its destination, or to every destination
	// where it is not pending, and returns the destinations that accepted the replay. Its
	// error joins the errors of the others.
	Replay(ctx context.Context, a Activity) (string, error)
	// Curl returns the command that makes the request of an activity again.
	Curl(ctx context.Context, a Activity) (string, error)
}
