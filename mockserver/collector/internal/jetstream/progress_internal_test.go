package jetstream

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal/journaltest"
)

// countedStreams counts the measurements of streams.
type countedStreams struct {
	store.Streams
	measured atomic.Int64
}

func (s *countedStreams) Info(ctx context.Context, name string) (*jetstream.StreamInfo, error) {
	s.measured.Add(1)
	return s.Streams.Info(ctx, name)
}

func TestIdleJournalIsNotMeasured(t *testing.T) {
	cleanTimers()
	defer cleanTimers()
	synctest.Test(t, func(t *testing.T) {
		streams := &countedStreams{Streams: fakeStreams(t)}
		j, err := openOn(t.Context(), Options{}, streams, streams)
		require.NoError(t, err)
		defer func() { require.NoError(t, j.Close()) }()
		<-j.previous.settled
		in := func(d time.Duration) int64 {
			synctest.Wait()
			before := streams.measured.Load()
			time.Sleep(d)
			synctest.Wait()
			return streams.measured.Load() - before
		}
		in(2 * time.Second)
		assert.Zero(t, in(10*time.Second))
		require.NoError(t, j.Append(t.Context(), event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: journaltest.Calls("web", "m", 1)}))
		used := j.incoming.usage.bytes()
		assert.Positive(t, in(2*time.Second), "a call was stored")
		assert.NotEqual(t, used, j.incoming.usage.bytes(), "the usage is measured")
	})
}

// TestSnapshotOnlyAfterChanges checks that each change causes a snapshot. Without changes, no
// stream may be measured.
func TestSnapshotOnlyAfterChanges(t *testing.T) {
	j, err := Open(within(t), Options{Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, j.Close()) })
	counted := &countedStreams{Streams: j.JS}
	streams := store.New(j.options.Name, false, j.Log)
	streams.JS = counted
	streams.Status.Up()
	beside := &Journal{Store: streams, options: j.options, local: &local{files: j.local.files, lock: j.local.lock}, ledger: j.ledger}
	beside.options.Dir = t.TempDir()
	beside.options.SyncInterval = time.Hour // disables the recent file
	snapshot := func() (measured int64, number uint64) {
		beside.local.snapshots.next = time.Time{}
		before := counted.measured.Load()
		require.NoError(t, beside.snapshot(within(t), false))
		return counted.measured.Load() - before, beside.local.snapshots.number
	}
	measured, number := snapshot()
	assert.Positive(t, measured)
	assert.EqualValues(t, 1, number)
	settings := beside.Settings()
	for i, change := range []func() error{
		func() error { return settings.Put(within(t), "one", []byte("1")) },
		func() error {
			_, err := settings.Update(within(t), "two", []byte("2"), 0)
			return err
		},
		func() error { return beside.removeSnapshots() },
	} {
		measured, number = snapshot()
		assert.Zero(t, measured, "nothing changed before change %d", i)
		require.NoError(t, change())
		measured, next := snapshot()
		assert.Positive(t, measured, "change %d", i)
		assert.Equal(t, number+1, next, "change %d", i)
	}
	require.NoError(t, settings.Delete(within(t), "one"))
	number = beside.local.snapshots.number // number of the snapshot without counts
	measured, next := snapshot()
	assert.Positive(t, measured)
	assert.Equal(t, number+1, next, "the values are counted again")
}
