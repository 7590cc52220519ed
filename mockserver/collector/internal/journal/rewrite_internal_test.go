package journal

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal/journaltest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestIndexBeyondTheLastMessageIsRemoved takes the last message of a stream away that
// the server's index has: it failed to be stored, and is not one that was deleted.
func TestIndexBeyondTheLastMessageIsRemoved(t *testing.T) {
	j, err := Open(t.Context(), Options{Dir: t.TempDir()})
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, j.Append(t.Context(), event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: journaltest.Calls("web", "m", 3)}))
	}
	require.NoError(t, j.Close())
	stream := filepath.Join(j.streamsDir(), j.names.stream(streamCalls))
	index := filepath.Join(stream, "msgs", "index.db")
	data, err := os.ReadFile(index)
	require.NoError(t, err)
	last, ok := lastIndexed(data)
	assert.True(t, ok)
	assert.EqualValues(t, 3, last)
	require.NoError(t, j.rewriteStream(stream))
	assert.FileExists(t, index)

	block, err := os.ReadFile(blockFile(stream, 1))
	require.NoError(t, err)
	h, at := newBlockHash(filepath.Base(stream), 1), 0
	for range 2 {
		at += record(block[at:], h)
	}
	require.NoError(t, os.Truncate(blockFile(stream, 1), int64(at)))
	require.NoError(t, j.rewriteStream(stream))
	assert.NoFileExists(t, index)
}
