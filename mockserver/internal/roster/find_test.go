package roster

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFindReadsFewSegments(t *testing.T) {
	const n = 200_000
	entries := make([]Entry, n)
	for i := range entries {
		entries[i] = Entry{User: fmt.Sprintf("user-%08d", 2*i), Value: fmt.Append(nil, i)}
	}
	w := write(t, entries)
	require.Greater(t, len(w), 10)
	reads := 0
	get := func(n int) ([]byte, error) {
		reads++
		return w[n], nil
	}
	for i := 0; i < n; i += 997 {
		reads = 0
		e, ok, err := Find(len(w), get, entries[i].User)
		require.NoError(t, err)
		require.True(t, ok, entries[i].User)
		require.Equal(t, entries[i], e)
		require.LessOrEqual(t, reads, 6, "of %d segments", len(w))
		_, ok, err = Find(len(w), get, fmt.Sprintf("user-%08d", 2*i+1))
		require.NoError(t, err)
		require.False(t, ok)
	}
	for _, user := range []string{"", "a", "z"} {
		_, ok, err := Find(len(w), get, user)
		require.NoError(t, err)
		require.False(t, ok)
	}
	_, ok, err := Find(0, get, "a")
	require.NoError(t, err)
	assert.False(t, ok)

	missing := errors.New("no such segment")
	_, _, err = Find(2, func(int) ([]byte, error) { return nil, missing }, "a")
	require.ErrorIs(t, err, missing)
	w[0][5] ^= 1
	_, _, err = Find(1, w.get, entries[0].User)
	assert.ErrorIs(t, err, ErrCorrupt)
}
