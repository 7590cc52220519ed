package journaltest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
)

// RunState runs the tests for a [state.Store]. open returns an empty store. reopen returns a new
// store with the same data. It is nil if the store is not durable.
func RunState(t *testing.T, open func(t *testing.T) state.Store, reopen func(t *testing.T) state.Store) {
	for name, test := range map[string]func(*testing.T, state.Store){
		"StoreValues":                    stateValues,
		"UpdateRequiresRevision":         stateRevisions,
		"DeleteRemovesChildren":          stateDelete,
		"UpdatesAreAtomicConcurrentSafe": stateConcurrent,
		"WatchChanges":                   stateWatch,
		"KeysDuringChanges":              stateKeysDuringChanges,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
	if reopen != nil {
		t.Run("ReopenPreservesData", func(t *testing.T) { stateReopen(t, open(t), reopen) })
	}
}

func wantState(t *testing.T, s state.Store, key, want string) uint64 {
	t.Helper()
	value, revision, err := s.Get(within(t), key)
	require.NoError(t, err)
	require.Equal(t, want, string(value), key)
	require.NotZero(t, revision)
	return revision
}

func wantNoState(t *testing.T, s state.Store, key string) {
	t.Helper()
	_, _, err := s.Get(within(t), key)
	require.ErrorIs(t, err, state.ErrNotFound, key)
}

func wantKeys(t *testing.T, s state.Store, prefix string, want ...string) {
	t.Helper()
	keys, err := s.Keys(within(t), prefix)
	require.NoError(t, err)
	slices.Sort(keys)
	require.Equal(t, append([]string(nil), want...), keys)
}

func stateValues(t *testing.T, s state.Store) {
	wantNoState(t, s, "a.b")
	wantKeys(t, s, "a")
	buffer := []byte("one")
	require.NoError(t, s.Put(within(t), "a.b", buffer))
	copy(buffer, "two") // the caller may reuse the buffer
	first := wantState(t, s, "a.b", "one")
	require.NoError(t, s.Put(within(t), "a.b", buffer))
	require.NotEqual(t, first, wantState(t, s, "a.b", "two"), "revisions")
	require.NoError(t, s.Put(within(t), "a.empty", nil))
	wantState(t, s, "a.empty", "")
	large := make([]byte, state.MaxValue)
	large[len(large)-1] = 7
	require.NoError(t, s.Put(within(t), "a.large", large))
	wantState(t, s, "a.large", string(large))
	wantKeys(t, s, "a", "a.b", "a.empty", "a.large")
}

func stateRevisions(t *testing.T, s state.Store) {
	conflict := func(key string, revision uint64) {
		t.Helper()
		_, err := s.Update(within(t), key, []byte("bad"), revision)
		require.ErrorIs(t, err, state.ErrConflict, "%s at revision %d", key, revision)
	}
	conflict("k", 1)
	first, err := s.Update(within(t), "k", []byte("one"), 0)
	require.NoError(t, err)
	require.Equal(t, first, wantState(t, s, "k", "one"))
	conflict("k", 0)
	second, err := s.Update(within(t), "k", []byte("two"), first)
	require.NoError(t, err)
	conflict("k", first)
	wantState(t, s, "k", "two")
	require.NoError(t, s.Put(within(t), "k", []byte("three")))
	conflict("k", second)
	third := wantState(t, s, "k", "three")
	require.NoError(t, s.Delete(within(t), "k"))
	conflict("k", third)
	_, err = s.Update(within(t), "k", []byte("anew"), 0)
	require.NoError(t, err)
	wantState(t, s, "k", "anew")
}

func stateDelete(t *testing.T, s state.Store) {
	require.NoError(t, s.Delete(within(t), "a"))
	for _, key := range []string{"a", "a.b", "a.b.0", "a.b.1", "a.bc", "ab", "b.a"} {
		require.NoError(t, s.Put(within(t), key, []byte(key)))
	}
	require.NoError(t, s.Delete(within(t), "a.b"))
	wantKeys(t, s, "a", "a.bc")
	wantNoState(t, s, "a.b")
	wantNoState(t, s, "a.b.1")
	require.NoError(t, s.Delete(within(t), "a"))
	wantKeys(t, s, "a")
	wantNoState(t, s, "a")
	for _, key := range []string{"ab", "b.a"} {
		wantState(t, s, key, key)
	}
}

func stateWatch(t *testing.T, s state.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	changes, err := s.Watch(ctx, "a.b")
	require.NoError(t, err)
	changed := func() {
		t.Helper()
		select {
		case <-changes:
		case <-time.After(patience):
			t.Fatal("no notification of a change")
		}
	}
	require.NoError(t, s.Put(t.Context(), "a.b", []byte("one")))
	changed()
	_, err = s.Update(t.Context(), "a.b", []byte("two"), wantState(t, s, "a.b", "one"))
	require.NoError(t, err)
	changed()
	require.NoError(t, s.Put(t.Context(), "a", []byte("other")))
	require.NoError(t, s.Put(t.Context(), "a.b.c", []byte("other")))
	select {
	case <-changes:
		t.Fatal("notification for another key")
	case <-time.After(brief):
	}
	cancel()
	for range changes { // until the channel is closed
	}
}

// stateKeysDuringChanges lists keys during changes. Each list must end, and must contain every key that
// exists the whole time.
func stateKeysDuringChanges(t *testing.T, s state.Store) {
	const lists = 80
	kept := []string{"a.first", "a.last"}
	stop := make(chan struct{})
	var changes sync.WaitGroup
	change := func(do func() error) {
		require.NoError(t, do())
		changes.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := do(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	defer changes.Wait()
	defer close(stop)
	for _, key := range kept {
		change(func() error { return s.Put(t.Context(), key, nil) })
	}
	for _, key := range []string{"a.middle", "b.only"} {
		change(func() error { return errors.Join(s.Put(t.Context(), key, nil), s.Delete(t.Context(), key)) })
	}
	for range lists {
		keys, err := s.Keys(within(t), "a")
		require.NoError(t, err)
		require.Subset(t, keys, kept)
		keys, err = s.Keys(within(t), "b")
		require.NoError(t, err)
		require.Subset(t, []string{"b.only"}, keys)
	}
}

// stateConcurrent increments a counter concurrently. No update may be lost.
func stateConcurrent(t *testing.T, s state.Store) {
	const hands, counts = 4, 15
	var work sync.WaitGroup
	for range hands {
		work.Go(func() {
			for done := 0; done < counts; {
				n := 0
				value, revision, err := s.Get(within(t), "n")
				if err == nil {
					_, err = fmt.Sscan(string(value), &n)
				} else if errors.Is(err, state.ErrNotFound) {
					err = nil
				}
				if err == nil {
					_, err = s.Update(within(t), "n", fmt.Append(nil, n+1), revision)
				}
				if err == nil {
					done++
				} else if !errors.Is(err, state.ErrConflict) {
					t.Error(err)
					return
				}
			}
		})
	}
	work.Wait()
	wantState(t, s, "n", fmt.Sprint(hands*counts))
}

func stateReopen(t *testing.T, s state.Store, reopen func(t *testing.T) state.Store) {
	for i := range 20 {
		require.NoError(t, s.Put(within(t), fmt.Sprintf("a.%d", i), fmt.Append(nil, i)))
	}
	require.NoError(t, s.Delete(within(t), "a.3"))
	revision, err := s.Update(within(t), "b", []byte("one"), 0)
	require.NoError(t, err)
	s = reopen(t)
	for i := range 20 {
		if key := fmt.Sprintf("a.%d", i); i == 3 {
			wantNoState(t, s, key)
		} else {
			wantState(t, s, key, fmt.Sprint(i))
		}
	}
	_, err = s.Update(within(t), "b", []byte("two"), revision)
	require.NoError(t, err)
}
