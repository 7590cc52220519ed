package jetstream_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream"
	"github.com/seed-45eadc4a/analytics-go/mockserver/journaltest"
)

func TestSettingsAreKeptAndWatched(t *testing.T) {
	dir := t.TempDir()
	j := open(t, jetstream.Options{Dir: dir})
	store, err := j.Settings(within(t))
	require.NoError(t, err)
	changes, err := store.Watch(t.Context())
	require.NoError(t, err)

	none, err := store.Load(within(t))
	require.NoError(t, err)
	assert.Equal(t, mockserver.StoredSettings{}, none)

	want := mockserver.StoredSettings{Sources: []mockserver.Source{{Name: "web", WriteKey: "key"}}, Paused: []string{"crm"}}
	first, err := store.Save(within(t), want)
	require.NoError(t, err)
	<-changes
	_, err = store.Save(within(t), want)
	assert.ErrorIs(t, err, mockserver.ErrSettingsChanged, "another made the first settings meanwhile")
	want.Revision = first
	want.Paused = nil
	second, err := store.Save(within(t), want)
	require.NoError(t, err)
	<-changes
	_, err = store.Save(within(t), want)
	assert.ErrorIs(t, err, mockserver.ErrSettingsChanged)

	require.NoError(t, j.Close())
	j = open(t, jetstream.Options{Dir: dir})
	store, err = j.Settings(within(t))
	require.NoError(t, err)
	got, err := store.Load(within(t))
	require.NoError(t, err)
	want.Revision = second
	assert.Equal(t, want, got)
}

func TestState(t *testing.T) {
	var dir string
	var j *jetstream.Journal
	state := func(t *testing.T) mockserver.StateStore {
		j = open(t, jetstream.Options{Dir: dir})
		s, err := j.State(within(t))
		require.NoError(t, err)
		return s
	}
	journaltest.RunState(t, func(t *testing.T) mockserver.StateStore {
		dir = t.TempDir()
		return state(t)
	}, func(t *testing.T) mockserver.StateStore {
		require.NoError(t, j.Close())
		return state(t)
	})
}
