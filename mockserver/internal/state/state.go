package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Errors that a [Store] answers with. They may be wrapped.
var (
	// ErrNotFound says that there is no value under a key.
	ErrNotFound = errors.New("mockserver: there is no state under this key")

	// ErrConflict says that a value is not the one that was to be replaced:
	// another has come between.
	ErrConflict = errors.New("mockserver: the state was changed meanwhile")
)

// MaxValue is how many bytes a value of a Store may have.
const MaxValue = 768 << 10

// A Store keeps what a collector has to remember beside calls: the settings that
// were made while it ran, deletion requests, audiences, computed traits, and which
// logins were ended. It must be as durable as the [journal.Journal] beside it, and shared by the collectors
// that share the journal: state that outlives the calls made from it would lose
// them, and state that does not would make them again. [NewMemory] goes with
// the journal in memory. The suite in mockserver/internal/journal/journaltest tests both.
//
// Keys are lower-case letters and digits in parts with a dot between them, such
// as "roster.7f3a.0", at most 200 bytes in all. Values have at most MaxValue
// bytes; the store does not keep the one that it is given, and the one that it
// gives must not be changed. All methods may be called from many goroutines at
// once.
type Store interface {
	// Get returns a value and its revision, which is never zero, or ErrNotFound.
	Get(ctx context.Context, key string) (value []byte, revision uint64, err error)

	// Put stores a value, whatever was there.
	Put(ctx context.Context, key string, value []byte) error

	// Update stores a value in place of the one with a revision and returns its
	// own; zero means that there must be none. Otherwise it is ErrConflict,
	// and nothing is stored. After any other error it may be stored or not.
	Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error)

	// Delete removes a key, and all keys that begin with it and a dot. That there
	// is none is no error.
	Delete(ctx context.Context, key string) error

	// Keys returns the keys that begin with a prefix and a dot, in any order.
	Keys(ctx context.Context, prefix string) ([]string, error)

	// Watch returns a channel that gets a value after a value was stored under a key,
	// here or by another process; one may stand for several. The store closes the
	// channel when ctx ends.
	Watch(ctx context.Context, key string) (<-chan struct{}, error)
}

// Keys returns the keys that begin with a prefix and a dot, and of each
// what follows: "b.c" of "a.b.c" for the prefix "a".
func Keys(ctx context.Context, state Store, prefix string) ([]string, error) {
	keys, err := state.Keys(ctx, prefix)
	if err != nil {
		return nil, fmt.Errorf("mockserver: %w", err)
	}
	for i := range keys {
		keys[i] = strings.TrimPrefix(keys[i], prefix+".")
	}
	return keys, nil
}

// Each reads the JSON values under the keys that Keys returns, until visit returns an
// error. What is deleted meanwhile is left out.
func Each[T any](ctx context.Context, state Store, prefix string, visit func(key string, value T) error) error {
	keys, err := Keys(ctx, state, prefix)
	if err != nil {
		return err
	}
	for _, key := range keys {
		value, err := Load[T](ctx, state, prefix+"."+key)
		if errors.Is(err, ErrNotFound) {
			continue
		}
		if err == nil {
			err = visit(key, value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// A Record is a value that may be corrupt although its bytes are those that were stored. A
// Record that is not JSON of its type, or not Whole, counts as missing: the error is
// ErrNotFound, and Update replaces it. Reading it again would give the same error.
type Record interface {
	// Whole reports whether the value has all that it needs.
	Whole() bool
}

// ErrUnreadable reports that a value is not JSON of its type.
var ErrUnreadable = errors.New("mockserver: the state under this key cannot be read")

// Load reads a JSON value.
func Load[T any](ctx context.Context, state Store, key string) (T, error) {
	value, _, err := load[T](ctx, state, key)
	return value, err
}

// load reads a JSON value and its revision.
func load[T any](ctx context.Context, state Store, key string) (value T, revision uint64, err error) {
	encoded, revision, err := state.Get(ctx, key)
	if err == nil {
		if wrong := json.Unmarshal(encoded, &value); wrong != nil {
			err = fmt.Errorf("%w: %w", ErrUnreadable, wrong)
		}
		if r, ok := any(value).(Record); ok && (err != nil || !r.Whole()) {
			value, err = *new(T), ErrNotFound
		}
	}
	if err != nil {
		err = fmt.Errorf("mockserver: state %s: %w", key, err)
	}
	return value, revision, err
}

// Put writes a JSON value.
func Put(ctx context.Context, state Store, key string, value any) error {
	encoded, err := json.Marshal(value)
	if err == nil {
		err = state.Put(ctx, key, encoded)
	}
	if err != nil {
		return fmt.Errorf("mockserver: state %s: %w", key, err)
	}
	return nil
}

// maxUpdateTries is how often a value is tried to be changed when others do so too.
const maxUpdateTries = 50

// Update changes a JSON value, which is zero where there is none, again and
// again until nobody comes between. An error of change ends it.
func Update[T any](ctx context.Context, state Store, key string, change func(*T) error) (T, error) {
	var none T
	for range maxUpdateTries {
		value, revision, err := load[T](ctx, state, key)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return none, err
		}
		if err := change(&value); err != nil {
			return none, err
		}
		encoded, err := json.Marshal(value)
		if err == nil {
			_, err = state.Update(ctx, key, encoded, revision)
		}
		switch {
		case err == nil:
			return value, nil
		case !errors.Is(err, ErrConflict):
			return none, fmt.Errorf("mockserver: state %s: %w", key, err)
		}
	}
	return none, fmt.Errorf("mockserver: state %s: %w, %d times in a row", key, ErrConflict, maxUpdateTries)
}

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
