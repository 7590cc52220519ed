package jetstream

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
)

// slowStreams delays the first measurement.
type slowStreams struct {
	store.Streams
	pause time.Duration
}

func (s *slowStreams) Info(ctx context.Context, name string) (*jetstream.StreamInfo, error) {
	if err := pause.For(ctx, s.pause); err != nil {
		return nil, err
	}
	s.pause = 0
	return s.Streams.Info(ctx, name)
}

// TestSnapshotIntervalIgnoresWaiting checks that a slow snapshot does not delay the next one. With a
// sync interval, a start accepts damage of the data stored since the newest snapshot.
func TestSnapshotIntervalIgnoresWaiting(t *testing.T) {
	j, err := Open(within(t), Options{Dir: t.TempDir(), SyncInterval: time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, j.Close()) })
	streams := store.New(j.options.Name, false, j.Log)
	const waited = time.Second
	streams.JS = &slowStreams{j.JS, waited}
	slow := &Journal{Store: streams, options: j.options, local: &local{lock: j.local.lock, files: j.local.files}, ledger: j.ledger}
	slow.options.Dir = t.TempDir()
	require.NoError(t, slow.snapshot(within(t), true))
	assert.Less(t, time.Until(slow.local.snapshots.next), snapshotShare*waited, "the wait counts as encoding time")
}
