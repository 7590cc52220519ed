package mockserver

import (
	"context"
	"errors"
)

// A SettingsStore keeps the sources and destinations that were made while
// collectors ran. Collectors that share a store share these, and what one
// changes the others apply. Its methods may be called from many goroutines at
// once.
type SettingsStore interface {
	// Load returns what was saved last; the zero value where nothing was.
	Load(ctx context.Context) (StoredSettings, error)

	// Save replaces what is stored if its revision is still s.Revision, and
	// returns the new one. Else it returns ErrSettingsChanged.
	Save(ctx context.Context, s StoredSettings) (revision uint64, err error)

	// Watch returns a channel that gets a value after Save was called, here or
	// by another process; one value may stand for several calls. The store closes
	// it when ctx ends.
	Watch(ctx context.Context) (<-chan struct{}, error)
}

// ErrSettingsChanged says that another process has changed the settings meanwhile.
var ErrSettingsChanged = errors.New("mockserver: the settings were changed meanwhile")

// StoredSettings are what a SettingsStore keeps. Written as JSON they hold write
// keys and shared secrets.
type StoredSettings struct {
	Sources      []Source      `json:"sources,omitempty"`
	Destinations []Destination `json:"destinations,omitempty"`
	// Paused names the destinations that are paused, also such that the
	// configuration defines.
	Paused []string `json:"paused,omitempty"`
	// Revision is the store's number of this state, 0 where nothing was saved.
	Revision uint64 `json:"-"`
}
