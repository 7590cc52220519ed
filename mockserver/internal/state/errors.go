package state

import (
	"errors"
	"fmt"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

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

// Unknown returns an ErrUnknown for a name of a kind of object, such as "destination". It
// repeats at most 200 bytes of the name.
func Unknown(kind, name string) error {
	return fmt.Errorf("%w: there is no %s %s", ErrUnknown, kind, text.Quote(text.MaxRepeated, name))
}
