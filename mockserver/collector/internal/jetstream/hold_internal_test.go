package jetstream

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/fakenats"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal/journaltest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A mute has streams that can be cut off. While cut off, they can be read, but store nothing.
type mute struct {
	store.Streams
	isCutOff atomic.Bool
	fails    atomic.Pointer[string] // subject prefix of the messages that cannot be stored
	deaf     atomic.Bool            // whether responses are lost
	loses    atomic.Bool            // whether some deliveries are lost
	looks    atomic.Int64           // number of reads of a claim
	queries  atomic.Int64           // number of queries of a consumer
	requests atomic.Int64           // number of requests for messages of CALLS
	claims   chan time.Time         // if not nil, receives the time of each published claim
}

func (m *mute) Last(ctx context.Context, stream, subject string) (*jetstream.RawStreamMsg, error) {
	if strings.Contains(subject, ".s.order.") {
		m.looks.Add(1)
	}
	return m.Streams.Last(ctx, stream, subject)
}

func (m *mute) Publish(ctx context.Context, msg *nats.Msg) (uint64, error) {
	if fails := m.fails.Load(); m.isCutOff.Load() || fails != nil && strings.HasPrefix(msg.Subject, *fails) {
		return 0, errors.New("cut off")
	}
	if m.claims != nil && strings.Contains(msg.Subject, ".s.order.") {
		m.claims <- time.Now()
	}
	seq, err := m.Streams.Publish(ctx, msg)
	if m.deaf.Load() {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	return seq, err
}

// A lossy is a consumer that loses some messages while loses is true.
type lossy struct {
	store.Consumer
	streams *mute
}

type lossyBatch struct {
	store.Batch
	messages chan *nats.Msg
}

func (b *lossyBatch) Messages() <-chan *nats.Msg { return b.messages }

func (c *lossy) Fetch(ctx context.Context, messages int, heartbeat time.Duration) (store.Batch, error) {
	if strings.HasSuffix(c.CachedInfo().Stream, record.StreamCalls) {
		c.streams.requests.Add(1)
	}
	b, err := c.Consumer.Fetch(ctx, messages, heartbeat)
	if err != nil {
		return nil, err
	}
	l := &lossyBatch{b, make(chan *nats.Msg, messages)}
	go func() {
		defer close(l.messages)
		for m := range b.Messages() {
			if c.streams.loses.Load() && rand.IntN(6) == 0 {
				continue
			}
			l.messages <- m
		}
	}()
	return l, nil
}

func (m *mute) Consumer(ctx context.Context, stream, name string) (store.Consumer, error) {
	m.queries.Add(1)
	c, err := m.Streams.Consumer(ctx, stream, name)
	if err != nil {
		return nil, err
	}
	return &lossy{c, m}, nil
}

// A sharing is two journals on one server, both with the destination crm.
type sharing struct {
	*testing.T
	options  Options
	server   *fakenats.Server
	journals [2]*Journal
	streams  [2]*mute
	readers  [2]journal.Reader
}

func share(t *testing.T) *sharing { return shareWith(t, Options{}) }

func shareWith(t *testing.T, o Options) *sharing {
	server := fakenats.New(false)
	o.NATS = &NATS{Replicas: 1}
	s := &sharing{T: t, options: o, server: server}
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
		server.Stop()
	})
	for i := range s.journals {
		s.open(i)
	}
	return s
}

// open opens a journal on new connections.
func (s *sharing) open(i int) {
	var streams [2]store.Streams
	for c := range streams {
		nc, err := nats.Connect("", nats.InProcessServer(s.server), nats.NoReconnect())
		require.NoError(s, err)
		s.Cleanup(nc.Close)
		streams[c], err = store.Connected(nc)
		require.NoError(s, err)
	}
	s.streams[i] = &mute{Streams: streams[1]}
	var err error
	s.journals[i], err = openOn(s.Context(), s.options, streams[0], s.streams[i])
	require.NoError(s, err)
	s.readers[i], err = s.journals[i].Attach(s.Context(), "crm", nil)
	require.NoError(s, err)
}

// append stores calls with the first journal.
func (s *sharing) append(prefix string, n int) {
	s.Helper()
	calls := journaltest.Calls("web", prefix, n)
	require.NoError(s, s.journals[0].Append(s.Context(), event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: calls}))
}

// next leases the next entry with journal i. It returns the lease and the ID of its first call.
func (s *sharing) next(i int) (journal.Lease, string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	l, err := s.readers[i].Next(ctx, journal.Want{InOrder: true})
	require.NoError(s, err)
	return l, l.Entry().Calls[0].ID
}

// TestOrderLeaseIsTakenOver checks that one of several journals has the order lease of a
// destination. After another journal has taken over, results of the first journal are rejected,
// even if it has not noticed yet.
func TestOrderLeaseIsTakenOver(t *testing.T) {
	cleanTimers()
	defer cleanTimers()
	synctest.Test(t, func(t *testing.T) {
		s := share(t)
		for _, id := range []string{"a", "b", "c"} {
			s.append(id, 1)
		}
		delivered := journal.Result{Outcomes: []tracking.Outcome{{State: tracking.StateDelivered}}}
		held, release, err := s.readers[0].Acquire(t.Context())
		require.NoError(t, err)
		first, id := s.next(0)
		require.Equal(t, "a-0", id)
		require.NoError(t, first.Finish(t.Context(), delivered))
		first, id = s.next(0)
		require.Equal(t, "b-0", id)
		next, id := s.next(0)
		require.Equal(t, "c-0", id)

		type holding struct {
			held    context.Context
			release func()
			since   time.Time
		}
		others := make(chan holding)
		go func() {
			held, release, err := s.readers[1].Acquire(t.Context())
			assert.NoError(t, err)
			others <- holding{held, release, time.Now()}
		}()
		select {
		case <-others:
			t.Fatal("both have the order lease")
		case <-time.After(10 * time.Minute):
		}
		require.NoError(t, held.Err(), "the lease is renewed")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_, err = s.readers[1].Next(ctx, journal.Want{InOrder: true})
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded, "only the holder receives calls")

		s.streams[0].isCutOff.Store(true)
		<-held.Done()
		lost := time.Now()
		other := <-others
		require.GreaterOrEqual(t, other.since.Sub(lost), time.Second, "the first lease had expired")
		require.Less(t, other.since.Sub(lost), 10*time.Second)
		second, id := s.next(1)
		require.Equal(t, "b-0", id)

		s.streams[0].isCutOff.Store(false)
		require.ErrorContains(t, first.Finish(t.Context(), delivered), "another collector delivers")
		require.ErrorContains(t, next.Finish(t.Context(), delivered), "another collector delivers", "later results are rejected as well")
		release()
		require.NoError(t, second.Finish(t.Context(), delivered))
		second, id = s.next(1)
		require.Equal(t, "c-0", id)
		second.Return()
		other.release()

		began := time.Now()
		_, release, err = s.readers[0].Acquire(t.Context())
		require.NoError(t, err)
		require.LessOrEqual(t, time.Since(began), time.Second, "a released destination is available at once")
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

// TestWaitingCollectorIsNotified checks that a waiting collector does not poll, and gets a
// destination as soon as another collector releases it.
func TestWaitingCollectorIsNotified(t *testing.T) {
	cleanTimers()
	defer cleanTimers()
	synctest.Test(t, func(t *testing.T) {
		s := share(t)
		_, release, err := s.readers[0].Acquire(t.Context())
		require.NoError(t, err)
		held := make(chan time.Time)
		go func() {
			_, release, err := s.readers[1].Acquire(t.Context())
			assert.NoError(t, err)
			held <- time.Now()
			release()
		}()
		time.Sleep(time.Minute)
		before := s.streams[1].looks.Load()
		time.Sleep(5 * time.Minute)
		assert.Equal(t, before, s.streams[1].looks.Load())
		began := time.Now()
		release()
		assert.Less(t, (<-held).Sub(began), time.Second)
	})
}

// TestResultAfterOrderLeaseIsRejected checks that a late result is rejected even if all results of
// the order lease were trimmed.
func TestResultAfterOrderLeaseIsRejected(t *testing.T) {
	cleanTimers()
	defer cleanTimers()
	synctest.Test(t, func(t *testing.T) {
		s := share(t)
		s.append("a", 1)
		held, release, err := s.readers[0].Acquire(t.Context())
		require.NoError(t, err)
		lease, _ := s.next(0)
		s.streams[0].isCutOff.Store(true)
		<-held.Done()
		s.streams[0].isCutOff.Store(false)
		j := s.journals[0]
		require.NoError(t, j.JS.Purge(t.Context(), j.Names.Stream(record.StreamOutcomes), "", 0))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err = lease.Finish(ctx, journal.Result{Outcomes: []tracking.Outcome{{State: tracking.StateDelivered}}})
		require.ErrorContains(t, err, "another collector delivers")
		release()

		_, release, err = s.readers[0].Acquire(t.Context())
		require.NoError(t, err)
		lease, _ = s.next(0)
		require.NoError(t, j.JS.Purge(t.Context(), j.Names.Stream(record.StreamOutcomes), "", 0))
		require.NoError(t, lease.Finish(ctx, journal.Result{Outcomes: []tracking.Outcome{{State: tracking.StateDelivered}}}), "no other process can have it")
		release()
	})
}

// TestNextHolderAppliesOutcomes checks that the next holder of the order lease applies an outcome
// if a process was killed between storing the outcome and applying it.
func TestNextHolderAppliesOutcomes(t *testing.T) {
	cleanTimers()
	defer cleanTimers()
	synctest.Test(t, func(t *testing.T) {
		s := share(t)
		s.append("a", 2)
		_, _, err := s.readers[0].Acquire(t.Context())
		require.NoError(t, err)
		lease, _ := s.next(0)
		none := s.journals[0].Names.Subject("at")
		s.streams[0].fails.Store(&none)
		require.NoError(t, lease.Finish(t.Context(), journal.Result{
			Outcomes: []tracking.Outcome{{State: tracking.StatePending}, {State: tracking.StateFailed, Reason: "no"}}, RetryAt: time.Now().Add(5 * time.Second),
		}))
		s.streams[0].isCutOff.Store(true)
		require.NoError(t, s.journals[0].Close())
		require.NoError(t, s.journals[1].Append(t.Context(), event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: journaltest.Calls("web", "b", 1)}))

		_, release, err := s.readers[1].Acquire(t.Context())
		require.NoError(t, err)
		var ids []string
		for range 2 {
			lease, id := s.next(1)
			ids = append(ids, id)
			require.NoError(t, lease.Finish(t.Context(), journal.Result{Outcomes: []tracking.Outcome{{State: tracking.StateDelivered}}}))
		}
		require.ElementsMatch(t, []string{"a-0", "b-0"}, ids)
		release()
		failed := 0
		require.NoError(t, s.journals[1].Failed(t.Context(), "crm", func(journal.FailedCall) bool { failed++; return true }))
		require.Equal(t, 1, failed)
	})
}

// TestClaimWithLostResponseIsRecognized checks that a process recognizes its own claim if it reads
// the claim again after the response was lost.
func TestClaimWithLostResponseIsRecognized(t *testing.T) {
	cleanTimers()
	defer cleanTimers()
	synctest.Test(t, func(t *testing.T) {
		s := share(t)
		s.streams[0].deaf.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, _, err := s.readers[0].Acquire(ctx)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		s.streams[0].deaf.Store(false)
		began := time.Now()
		held, release, err := s.readers[0].Acquire(t.Context())
		require.NoError(t, err)
		require.Less(t, time.Since(began), 5*time.Second)

		s.journals[0].Status.Down(errors.New("the ledger is not updated"))
		select {
		case <-held.Done(): // another process may take over
		case <-time.After(holdEnds):
			t.Error("it still claims a destination that it cannot deliver")
		}
		release()
	})
}

// TestClaimsAreRenewedTogether checks that the claims of a process are renewed at the same time, and in
// time. Otherwise, an idle cluster would have to write to the disk more often.
func TestClaimsAreRenewedTogether(t *testing.T) {
	cleanTimers()
	defer cleanTimers()
	synctest.Test(t, func(t *testing.T) {
		s := share(t)
		s.streams[0].claims = make(chan time.Time, 1000)
		var held []context.Context
		for _, destination := range []string{"crm", "mail", "web"} {
			r, err := s.journals[0].Attach(t.Context(), destination, nil)
			require.NoError(t, err)
			ctx, release, err := r.Acquire(t.Context())
			require.NoError(t, err)
			defer release()
			held = append(held, ctx)
			time.Sleep(1300 * time.Millisecond)
		}
		for len(s.streams[0].claims) > 0 {
			<-s.streams[0].claims
		}
		time.Sleep(time.Minute)
		renewed := map[time.Time]int{}
		for len(s.streams[0].claims) > 0 {
			renewed[<-s.streams[0].claims]++
		}
		assert.Len(t, renewed, 15)
		for at, n := range renewed {
			assert.Equal(t, 3, n, at)
		}
		for _, ctx := range held {
			assert.NoError(t, ctx.Err())
		}
	})
}

// holdEnds limits the time until an order lease expires.
const holdEnds = 15 * time.Second
