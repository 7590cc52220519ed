package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

// Errors of a [Store]. They may be wrapped.
var (
	// ErrNotFound reports that a key does not exist.
	ErrNotFound = errors.New("mockserver: the key does not exist")

	// ErrConflict reports that a value was changed by another writer and was not replaced.
	ErrConflict = errors.New("mockserver: the value was changed in the meantime")
)

// MaxValue is the maximum size of a value in bytes.
const MaxValue = 768 << 10

// A Store contains the collector's persistent state, except calls. It must be as durable as the
// [journal.Journal], and the same collectors must share both. If only the store survived, calls
// that were created from its state would be lost. If only the journal survived, these calls would be
// created again. The tests in mockserver/internal/journal/journaltest apply to both.
//
// A key consists of parts separated by dots, such as "computation.7f3a". Parts contain lower-case
// letters and digits. A key has at most 200 bytes, and a value at most MaxValue bytes. The store
// does not retain values passed to it; values returned by it must not be changed. A Store is
// safe for concurrent use.
type Store interface {
	// Get returns a value and its revision. If the key does not exist, the error is ErrNotFound.
	// A revision is never zero.
	Get(ctx context.Context, key string) (value []byte, revision uint64, err error)

	// Put stores a value unconditionally.
	Put(ctx context.Context, key string, value []byte) error

	// Update replaces the value with the given revision, and returns the new revision. Revision
	// zero means that the key must not exist. If the current revision is different, Update
	// returns ErrConflict and stores nothing. After any other error the value may be stored.
	Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error)

	// Delete removes a key, and all keys that start with the key and a dot. It succeeds even if
	// the key does not exist.
	Delete(ctx context.Context, key string) error

	// Keys returns the keys that start with a prefix and a dot, in no particular order.
	Keys(ctx context.Context, prefix string) ([]string, error)

	// Watch returns a channel that receives a value after this or another process has changed
	// the key. Several changes may cause only one value. The channel is closed when ctx is done.
	Watch(ctx context.Context, key string) (<-chan struct{}, error)
}

// Keys returns the keys that start with a prefix and a dot, and removes both: with the prefix "a", the
// key "a.b.c" is returned as "b.c".
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

// Each calls visit with the JSON value of each key returned by Keys, until visit returns an error. It
// skips values that are deleted in the meantime.
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

// A Record is a value that may be corrupt even if its stored bytes are intact. If a Record cannot be
// decoded, or if Whole returns false, it counts as missing: Load returns ErrNotFound, and Update
// replaces it. Retrying would not help.
type Record interface {
	// Whole reports whether the value is complete.
	Whole() bool
}

// ErrUnreadable reports that a value is not JSON of the expected type.
var ErrUnreadable = errors.New("mockserver: the state under this key cannot be read")

// Load reads a JSON value.
func Load[T any](ctx context.Context, state Store, key string) (T, error) {
	value, _, err := load[T](ctx, state, key)
	return value, err
}

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

// maxUpdateTries is the maximum number of attempts to change a value.
const maxUpdateTries = 50

// Update changes a JSON value. If the key does not exist, it changes a zero value. If another process
// changes the value at the same time, Update calls change again. If change returns an error, Update
// returns it.
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
	return none, fmt.Errorf("mockserver: state %s: %w, in %d attempts", key, ErrConflict, maxUpdateTries)
}

// Errors of requests for named objects. Functions wrap them.
var (
	// ErrSettingsChanged reports that another process has changed the settings.
	ErrSettingsChanged = errors.New("mockserver: the settings were changed by another process")

	// ErrReadOnly reports that an object is defined in the configuration file.
	ErrReadOnly = errors.New("mockserver: the configuration defines it")

	// ErrUnknown reports that a name does not exist.
	ErrUnknown = errors.New("mockserver: unknown name")

	// ErrExists reports that a name is in use.
	ErrExists = errors.New("mockserver: the name is taken")

	// ErrClosed reports that the collector is closed or closing.
	ErrClosed = errors.New("mockserver: the collector is closed, or closing")

	// ErrNotReplayable reports that a call is pending at the destination, or that the destination
	// does not receive it.
	ErrNotReplayable = errors.New("mockserver: the call is pending at the destination or is not routed to it")

	// ErrReplayedRecently reports that a call was replayed to the destination within the
	// last 10 seconds.
	ErrReplayedRecently = errors.New("mockserver: the call was replayed within the last 10 seconds")
)

// Unknown returns an error that wraps ErrUnknown. kind is the kind of object, such as "destination".
// The error contains at most 200 bytes of the name.
func Unknown(kind, name string) error {
	return fmt.Errorf("%w: there is no %s %s", ErrUnknown, kind, text.Quote(text.MaxRepeated, name))
}
