package jetstream

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
)

// TestLossOfLastBucketValueIsDetected empties a block of a bucket after a kill. No snapshot
// contains the last value of the bucket yet.
func TestLossOfLastBucketValueIsDetected(t *testing.T) {
	for _, bucket := range []string{record.BucketSettings, record.BucketState} {
		t.Run(bucket, func(t *testing.T) {
			dir := t.TempDir()
			j, err := Open(t.Context(), Options{Dir: dir})
			require.NoError(t, err)
			settings, state := j.Settings(), j.State()
			j.local.snapshots.mu.Lock()
			_, err = settings.Update(t.Context(), "settings", []byte("{}"), 0)
			require.NoError(t, err)
			_, err = state.Update(t.Context(), "updated", []byte("1"), 0)
			require.NoError(t, err)
			require.NoError(t, state.Put(t.Context(), "put", []byte("1")))
			killed, err := Copy(dir, t.TempDir)
			require.NoError(t, err)
			j.local.snapshots.mu.Unlock()
			require.NoError(t, j.Close())

			block := filepath.Join(killed, "jetstream", "$G", "streams", j.Names.Bucket(bucket), "msgs", "1.blk")
			require.NoError(t, os.Truncate(block, 0))
			_, err = Open(t.Context(), Options{Dir: killed})
			require.ErrorIs(t, err, record.ErrDamaged)
			assert.ErrorContains(t, err, bucket+" ends at message 0, but ")
		})
	}
}
