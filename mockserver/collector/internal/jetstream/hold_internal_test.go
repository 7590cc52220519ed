package jetstream

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/fakenats"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal/journaltest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// mute streams store nothing while they are cut off, and can be read all the same.
type mute struct {
	store.Streams
	isCutOff atomic.Bool
}

func (m *mute) Publish(ctx context.Context, msg *nats.Msg) (uint64, error) {
	if m.isCutOff.Load() {
		return 0, errors.New("cut off")
	}
	return m.Streams.Publish(ctx, msg)
}

// A sharing is two journals on one server, both with the destination crm.
type sharing struct {
	*testing.T
	journals [2]*Journal
	streams  [2]*mute
	readers  [2]journal.Reader
}

func share(t *testing.T) *sharing {
	s, server := &sharing{T: t}, fakenats.New(false)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			time.Sleep(100 * time.Millisecond)
			server.Tick()
		}
	}()
	t.Cleanup(func() {
		for _, j := range s.journals {
			assert.NoError(t, j.Close())
		}
		cancel()
		<-done
		require.NoError(t, server.Stop())
	})
	for i := range s.journals {
		var streams [2]store.Streams
		for c := range streams {
			nc, err := nats.Connect("", nats.InProcessServer(server), nats.NoReconnect())
			require.NoError(t, err)
			t.Cleanup(nc.Close)
			streams[c], err = store.Connected(nc)
			require.NoError(t, err)
		}
		s.streams[i] = &mute{Streams: streams[1]}
		var err error
		s.journals[i], err = openOn(t.Context(), Options{NATS: &NATS{Replicas: 1}}, streams[0], s.streams[i])
		require.NoError(t, err)
		s.readers[i], err = s.journals[i].Attach(t.Context(), "crm", nil)
		require.NoError(t, err)
	}
	return s
}

// next leases the next entry in order, and returns it with the first of its calls.
func (s *sharing) next(i int) (journal.Lease, string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	l, err := s.readers[i].Next(ctx, journal.Want{InOrder: true})
	require.NoError(s, err)
	return l, l.Entry().Calls[0].ID
}

// A destination whose calls have an order is held by one of those that share a journal. What
// it does once another has taken over does not count, though it does not know yet.
func TestAHoldIsTakenOver(t *testing.T) {
	cleanTimers()
	defer cleanTimers()
	synctest.Test(t, func(t *testing.T) {
		s := share(t)
		for _, id := range []string{"a", "b", "c"} {
			require.NoError(t, s.journals[0].Append(t.Context(), event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: journaltest.Calls("web", id, 1)}))
		}
		delivered := journal.Result{Outcomes: []tracking.Outcome{{State: tracking.StateDelivered}}}
		held, release, err := s.readers[0].Hold(t.Context())
		require.NoError(t, err)
		first, id := s.next(0)
		require.Equal(t, "a-0", id)
		require.NoError(t, first.Finish(t.Context(), delivered))
		first, id = s.next(0)
		require.Equal(t, "b-0", id)

		type holding struct {
			held    context.Context
			release func()
			since   time.Time
		}
		others := make(chan holding)
		go func() {
			held, release, err := s.readers[1].Hold(t.Context())
			assert.NoError(t, err)
			others <- holding{held, release, time.Now()}
		}()
		select {
		case <-others:
			t.Fatal("both hold the destination")
		case <-time.After(10 * time.Minute):
		}
		require.NoError(t, held.Err(), "it is renewed")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_, err = s.readers[1].Next(ctx, journal.Want{InOrder: true})
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded, "what one holds comes to nobody else")

		s.streams[0].isCutOff.Store(true)
		<-held.Done()
		lost := time.Now()
		other := <-others
		require.GreaterOrEqual(t, other.since.Sub(lost), time.Second, "the first one had ended by then")
		require.Less(t, other.since.Sub(lost), 10*time.Second)
		second, id := s.next(1)
		require.Equal(t, "b-0", id)

		s.streams[0].isCutOff.Store(false)
		require.ErrorContains(t, first.Finish(t.Context(), delivered), "another collector delivers")
		first.Return()
		release()
		require.NoError(t, second.Finish(t.Context(), delivered))
		second, id = s.next(1)
		require.Equal(t, "c-0", id)
		second.Return()
		other.release()

		began := time.Now()
		_, release, err = s.readers[0].Hold(t.Context())
		require.NoError(t, err)
		require.LessOrEqual(t, time.Since(began), time.Second, "what is released is there at once")
		last, id := s.next(0)
		require.Equal(t, "c-0", id)
		require.NoError(t, last.Finish(t.Context(), delivered))
		release()
		for _, j := range s.journals {
			proofs, err := j.Verify(t.Context())
			require.NoError(t, err)
			require.True(t, proofs[0].OK(), "%+v", proofs[0])
			require.EqualValues(t, 3, proofs[0].Ledger.Delivered)
		}
	})
}
