package engine

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
)

// TestAliasStore checks that pairs are stored per destination, up to the limit.
func TestAliasStore(t *testing.T) {
	store := state.NewMemory()
	pair := func(n int) [2]event.Key {
		return [2]event.Key{event.KeyOf("", fmt.Sprint("a", n)), event.KeyOf("", fmt.Sprint("b", n))}
	}
	load := func(destination string) [][2]event.Key {
		pairs, err := newAliasStore(store, destination).Load(t.Context())
		require.NoError(t, err)
		return pairs
	}
	j := newAliasStore(store, "d")
	for _, n := range []int{1, 2, 1} {
		require.NoError(t, j.Save(t.Context(), pair(n)))
	}
	assert.ElementsMatch(t, [][2]event.Key{pair(1), pair(2)}, load("d"))
	assert.Empty(t, load("other"))
	for n := range maxLinks {
		j.known[pair(-n-1)] = struct{}{}
	}
	require.NoError(t, j.Save(t.Context(), pair(3)))
	assert.Len(t, j.known, maxLinks)
	assert.Contains(t, load("d"), pair(3))
	require.NoError(t, j.forget(t.Context()))
	assert.Empty(t, load("d"))
}
