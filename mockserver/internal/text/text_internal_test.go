package text

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSearchIsLinear(t *testing.T) {
	// A text with a part's first letter in one case all over, and never the whole
	// part: 100 calls of it take some milliseconds, or minutes.
	text := bytes.Repeat([]byte("A"), 1<<20)
	for range 100 {
		require.False(t, ContainsFold(text, []byte("ab")))
	}
	assert.True(t, ContainsFold([]byte("xxaAaB"), []byte("aab")))
	assert.True(t, ContainsFold([]byte("ab"), []byte("AB")))
	assert.False(t, ContainsFold([]byte("a"), []byte("ab")))
}
