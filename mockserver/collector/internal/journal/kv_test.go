package journal_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/journal"
)

func TestSettingsAreKeptAndWatched(t *testing.T) {
	dir := t.TempDir()
	j := open(t, journal.Options{Dir: dir})
	store, err := j.Settings(t.Context())
	require.NoError(t, err)
	changes, err := store.Watch(t.Context())
	require.NoError(t, err)

	none, err := store.Load(t.Context())
	require.NoError(t, err)
	assert.Equal(t, mockserver.StoredSettings{}, none)

	want := mockserver.StoredSettings{Sources: []mockserver.Source{{Name: "web", WriteKey: "key"}}, Paused: []string{"crm"}}
	first, err := store.Save(t.Context(), want)
	require.NoError(t, err)
	<-changes
	_, err = store.Save(t.Context(), want)
	assert.ErrorIs(t, err, mockserver.ErrSettingsChanged, "another made the first settings meanwhile")
	want.Revision = first
	want.Paused = nil
	second, err := store.Save(t.Context(), want)
	require.NoError(t, err)
	<-changes
	_, err = store.Save(t.Context(), want)
	assert.ErrorIs(t, err, mockserver.ErrSettingsChanged)

	require.NoError(t, j.Close())
	j = open(t, journal.Options{Dir: dir})
	store, err = j.Settings(t.Context())
	require.NoError(t, err)
	got, err := store.Load(t.Context())
	require.NoError(t, err)
	want.Revision = second
	assert.Equal(t, want, got)
}

func TestStateIsKept(t *testing.T) {
	j := open(t, journal.Options{Dir: t.TempDir()})
	s, err := j.State(t.Context())
	require.NoError(t, err)
	_, _, err = s.Get(t.Context(), "roster.a")
	assert.ErrorIs(t, err, mockserver.ErrNoState)
	require.NoError(t, s.Delete(t.Context(), "roster.a"), "that there is none is no error")

	revision, err := s.Update(t.Context(), "roster.a", []byte("one"), 0)
	require.NoError(t, err)
	_, err = s.Update(t.Context(), "roster.a", []byte("two"), 0)
	assert.ErrorIs(t, err, mockserver.ErrStateConflict)
	next, err := s.Update(t.Context(), "roster.a", []byte("two"), revision)
	require.NoError(t, err)
	assert.NotEqual(t, revision, next)
	_, err = s.Update(t.Context(), "roster.a", []byte("three"), revision)
	assert.ErrorIs(t, err, mockserver.ErrStateConflict)

	large := make([]byte, mockserver.MaxStateValue)
	for i := range 5 {
		require.NoError(t, s.Put(t.Context(), fmt.Sprintf("roster.a.%d", i), large))
	}
	require.NoError(t, s.Put(t.Context(), "roster.ab", []byte("another")))
	keys, err := s.Keys(t.Context(), "roster")
	require.NoError(t, err)
	slices.Sort(keys)
	assert.Equal(t, []string{"roster.a", "roster.a.0", "roster.a.1", "roster.a.2", "roster.a.3", "roster.a.4", "roster.ab"}, keys)
	value, got, err := s.Get(t.Context(), "roster.a")
	require.NoError(t, err)
	assert.Equal(t, "two", string(value))
	assert.Equal(t, next, got)

	require.NoError(t, s.Delete(t.Context(), "roster.a"))
	keys, err = s.Keys(t.Context(), "roster")
	require.NoError(t, err)
	assert.Equal(t, []string{"roster.ab"}, keys)
	_, _, err = s.Get(t.Context(), "roster.a.3")
	assert.ErrorIs(t, err, mockserver.ErrNoState)
	_, err = s.Update(t.Context(), "roster.a", []byte("anew"), 0)
	require.NoError(t, err)
}
