package store

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWatchSurvivesBrokenWatcher closes a watcher, as the client does if it cannot recreate the
// watcher's consumer. The bucket must start another watcher and report a change.
func TestWatchSurvivesBrokenWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := &brokenBucket{}
		ctx, cancel := context.WithCancel(t.Context())
		changes, err := (&bucket{Buckets: NewBuckets(New("test", false, slog.New(slog.DiscardHandler)), nil, nil), kv: broken}).Watch(ctx, "settings")
		require.NoError(t, err)
		broken.watches[0].updates <- nil
		<-changes
		broken.refuse = 3
		close(broken.watches[0].updates)
		<-changes
		require.Len(t, broken.watches, 2)
		broken.watches[1].updates <- nil
		<-changes
		cancel()
		_, more := <-changes
		assert.False(t, more)
		assert.True(t, broken.watches[1].stopped)
	})
}

// A brokenBucket is a bucket that fails to watch as many times as refuse specifies.
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
