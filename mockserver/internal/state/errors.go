package state

import "errors"

// Errors of what is asked for by its name, wrapped.
var (
	// ErrSettingsChanged says that another process has changed the settings
	// meanwhile.
	ErrSettingsChanged = errors.New("mockserver: the settings were changed meanwhile")

	// ErrReadOnly says that the configuration defines what was to be changed.
	ErrReadOnly = errors.New("mockserver: the configuration defines it")

	// ErrUnknown says that there is nothing of this name.
	ErrUnknown = errors.New("mockserver: unknown name")

	// ErrExists says that the name is taken.
	ErrExists = errors.New("mockserver: the name is taken")

	// ErrClosed says that the collector is closed, or closing.
	ErrClosed = errors.New("mockserver: the collector is closed, or closing")
)

// Errors of a replay of one call.
var (
	// ErrNotReplayable means that the call is pending at the destination or is not routed
	// to it.
	ErrNotReplayable = errors.New("mockserver: the call is pending at the destination or is not routed to it")
	// ErrReplayedRecently means that the call was replayed to the destination within the
	// last 10 seconds.
	ErrReplayedRecently = errors.New("mockserver: the call was replayed within the last 10 seconds")
)
