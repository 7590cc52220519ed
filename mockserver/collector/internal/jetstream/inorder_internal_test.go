package jetstream

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal/journaltest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// unreadable contains streams that fail to read some messages.
type unreadable struct {
	store.Streams
	reads atomic.Int64 // number of reads that will fail
}

func (u *unreadable) Get(ctx context.Context, stream string, seq uint64) (*jetstream.RawStreamMsg, error) {
	if u.reads.Add(-1) >= 0 {
		return nil, errors.New("no response")
	}
	return u.Streams.Get(ctx, stream, seq)
}

// TestUnreadableReplayKeepsItsPlace fails to read the calls of a replay. Later calls must not be leased
// before it.
func TestUnreadableReplayKeepsItsPlace(t *testing.T) {
	cleanTimers()
	defer cleanTimers()
	synctest.Test(t, func(t *testing.T) {
		streams := &unreadable{Streams: fakeStreams(t)}
		j, err := openOn(t.Context(), Options{Keep: time.Hour}, streams, streams)
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, j.Close()) })
		<-j.previous.settled
		r, err := j.Attach(t.Context(), "crm", nil)
		require.NoError(t, err)
		inOrder := journal.Want{InOrder: true}
		add := func(id string) {
			require.NoError(t, j.Append(t.Context(), event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: journaltest.Calls("web", id, 1)}))
		}
		add("first")
		l, err := r.Next(t.Context(), inOrder)
		require.NoError(t, err)
		require.NoError(t, l.Finish(t.Context(), givenUp))
		require.NoError(t, j.Replay(t.Context(), "crm", listedAsFailed(t, j), nil, tracking.StateFailed))
		add("second")
		synctest.Wait()
		streams.reads.Store(3)
		var got []string
		for range 2 {
			l, err := r.Next(t.Context(), inOrder)
			require.NoError(t, err)
			got = append(got, l.Entry().Calls[0].ID)
		}
		assert.Negative(t, streams.reads.Load())
		assert.Equal(t, []string{"first-0", "second-0"}, got)
	})
}
