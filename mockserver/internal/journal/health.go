package journal

import (
	"context"
	"time"
)

// A HealthChecker is a Journal that can tell how it is.
type HealthChecker interface {
	// Health returns what the journal holds, and an error if it could not store
	// a batch now: ErrFull, or what keeps it from storing.
	Health(ctx context.Context) (Health, error)
}

// Health is how full a journal is.
type Health struct {
	Bytes      int64 `json:"bytes"`      // that its calls take
	LimitBytes int64 `json:"limitBytes"` // at which it refuses more; 0 where there is no limit
	// Servers are those of the cluster that keeps it, by name; none where it is on one
	// machine.
	Servers []Server `json:"servers,omitempty"`
	// Scrub is what reading all that is stored has found; zero where that is not done.
	Scrub Scrub `json:"scrub,omitzero"`
}

// A Scrub is what a journal has found that reads all that it has stored, again
// and again.
type Scrub struct {
	Bytes      uint64    `json:"bytes"`               // that were read
	Rounds     int64     `json:"rounds"`              // in which all was read
	FinishedAt time.Time `json:"finishedAt,omitzero"` // when the last of them ended
	Damage     []string  `json:"damage,omitempty"`    // what it found
}

// A Server is a server of the cluster that keeps a journal.
type Server struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"` // empty where it is not known
	Sync    string `json:"sync"`              // SyncAlways, SyncLazy or SyncUnknown
	// SyncInterval is the setting, as "always" or "2m0s"; empty where it is not known.
	SyncInterval string `json:"syncInterval,omitempty"`
}

// Values of Server.Sync: whether a server brings messages to its disk before it
// acknowledges them.
const (
	SyncAlways  = "always"
	SyncLazy    = "lazy"
	SyncUnknown = "unknown"
)
