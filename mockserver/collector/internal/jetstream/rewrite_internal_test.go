package jetstream

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal/journaltest"
)

// TestIndexIsRebuilt checks that the server's index is removed together with unsynced blocks. After
// a failed write, the index may not match the blocks.
func TestIndexIsRebuilt(t *testing.T) {
	dir := t.TempDir()
	j, err := Open(within(t), Options{Dir: dir})
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, j.Append(within(t), event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: journaltest.Calls("web", "m", 3)}))
	}
	require.NoError(t, j.Close())
	stream := filepath.Join(j.local.files.StreamsDir(), j.Names.Stream(record.StreamCalls))
	index := filepath.Join(stream, "msgs", "index.db")
	assert.FileExists(t, index)
	require.NoError(t, j.local.files.RewriteUnsynced())
	assert.NoFileExists(t, index)

	j, err = Open(within(t), Options{Dir: dir})
	require.NoError(t, err)
	calls, err := j.Measure(within(t), record.StreamCalls)
	require.NoError(t, err)
	assert.EqualValues(t, 3, calls.Msgs)
	require.NoError(t, j.Close())
}
