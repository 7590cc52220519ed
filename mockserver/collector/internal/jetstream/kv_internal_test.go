package jetstream

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
)

// A watch of a bucket ends where the server cannot make its consumer again. It is
// begun anew, and what changed meanwhile is noticed.
func TestTheWatchOfSettingsGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucket := &brokenBucket{}
		ctx, cancel := context.WithCancel(t.Context())
		changes, err := (&settingsStore{journal: &Journal{store: &store{ctx: t.Context()}}, kv: bucket}).Watch(ctx)
		require.NoError(t, err)
		bucket.watches[0].updates <- nil
		<-changes
		bucket.refuse = 3
		close(bucket.watches[0].updates)
		<-changes
		require.Len(t, bucket.watches, 2)
		bucket.watches[1].updates <- nil
		<-changes
		cancel()
		_, more := <-changes
		assert.False(t, more)
		assert.True(t, bucket.watches[1].stopped)
	})
}

// A block of the settings or the state is emptied after a kill, before a snapshot has what
// was stored last.
func TestWhatABucketHadLastIsMissed(t *testing.T) {
	for _, bucket := range []string{record.BucketSettings, record.BucketState} {
		t.Run(bucket, func(t *testing.T) {
			dir, killed := t.TempDir(), t.TempDir()
			j, err := Open(t.Context(), Options{Dir: dir})
			require.NoError(t, err)
			settings, err := j.Settings(t.Context())
			require.NoError(t, err)
			state, err := j.State(t.Context())
			require.NoError(t, err)
			j.snapshots.mu.Lock()
			_, err = settings.Save(t.Context(), mockserver.StoredSettings{})
			require.NoError(t, err)
			_, err = state.Update(t.Context(), "updated", []byte("1"), 0)
			require.NoError(t, err)
			require.NoError(t, state.Put(t.Context(), "put", []byte("1")))
			require.NoError(t, os.CopyFS(killed, os.DirFS(dir)))
			j.snapshots.mu.Unlock()
			require.NoError(t, j.Close())

			block := filepath.Join(killed, "jetstream", "$G", "streams", "KV_"+j.names.Bucket(bucket), "msgs", "1.blk")
			require.NoError(t, os.Truncate(block, 0))
			_, err = Open(t.Context(), Options{Dir: killed})
			require.ErrorIs(t, err, record.ErrDamaged)
			assert.ErrorContains(t, err, bucket+" ends at message 0, but ")
		})
	}
}

// A brokenBucket refuses so many watches.
type brokenBucket struct {
	jetstream.KeyValue
	refuse  int
	watches []*watch
}

func (b *brokenBucket) Watch(context.Context, string, ...jetstream.WatchOpt) (jetstream.KeyWatcher, error) {
	if b.refuse > 0 {
		b.refuse--
		return nil, errors.New("not now")
	}
	w := &watch{updates: make(chan jetstream.KeyValueEntry)}
	b.watches = append(b.watches, w)
	return w, nil
}

type watch struct {
	jetstream.KeyWatcher
	updates chan jetstream.KeyValueEntry
	stopped bool
}

func (w *watch) Updates() <-chan jetstream.KeyValueEntry { return w.updates }

func (w *watch) Stop() error {
	w.stopped = true
	return nil
}
