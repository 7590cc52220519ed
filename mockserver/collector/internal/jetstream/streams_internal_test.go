package jetstream

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal/journaltest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// streamsOf starts a server and returns its streams.
func streamsOf(t *testing.T) store.Streams {
	t.Helper()
	s, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true, JetStream: true, JetStreamMaxStore: 1 << 40, StoreDir: t.TempDir()})
	require.NoError(t, err)
	s.Start()
	t.Cleanup(s.WaitForShutdown)
	t.Cleanup(s.Shutdown)
	require.True(t, s.ReadyForConnections(Patience))
	nc, err := nats.Connect("", nats.InProcessServer(s))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	streams, err := store.Connected(nc)
	require.NoError(t, err)
	return streams
}

// heldStreams delays the messages of the first consumer of CALLS until its request ends.
type heldStreams struct {
	store.Streams
	onTheWay chan *nats.Msg
	first    *atomic.Bool
}

func (s heldStreams) Consumer(ctx context.Context, stream, name string) (store.Consumer, error) {
	consumer, err := s.Streams.Consumer(ctx, stream, name)
	if err != nil || !strings.HasSuffix(stream, record.StreamCalls) || s.first.Swap(true) {
		return consumer, err
	}
	return heldConsumer{consumer, s.onTheWay}, nil
}

type heldConsumer struct {
	store.Consumer
	onTheWay chan *nats.Msg
}

func (c heldConsumer) Fetch(ctx context.Context, messages int, heartbeat time.Duration) (store.Batch, error) {
	batch, err := c.Consumer.Fetch(ctx, messages, heartbeat)
	late := make(chan *nats.Msg, messages)
	go func() {
		defer close(late)
		m := <-batch.Messages()
		c.onTheWay <- m
		<-ctx.Done()
		late <- m
	}()
	return heldBatch{batch, late}, err
}

type heldBatch struct {
	store.Batch
	late chan *nats.Msg
}

func (b heldBatch) Messages() <-chan *nats.Msg { return b.late }

// TestMessagesInTransitAreRedelivered checks that messages that were in transit during a reconnect
// are redelivered, although the server had sent them.
func TestMessagesInTransitAreRedelivered(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	held := heldStreams{streamsOf(t), make(chan *nats.Msg, 1), new(atomic.Bool)}
	j, err := openOn(ctx, Options{}, held, held)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, j.Close()) })
	r, err := j.Attach(ctx, "crm", nil)
	require.NoError(t, err)
	for _, id := range []string{"m", "n", "o"} {
		require.NoError(t, j.Append(ctx, event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: journaltest.Calls("web", id, 1)}))
	}
	var got []string
	var reading sync.WaitGroup
	reading.Go(func() {
		for len(got) < 3 {
			l, err := r.Next(ctx, journal.Want{})
			if !assert.NoError(t, err, "%v came", got) {
				return
			}
			got = append(got, l.Entry().Calls[0].ID)
			assert.NoError(t, l.Finish(ctx, journal.Result{Outcomes: []tracking.Outcome{{State: tracking.StateDelivered}}}))
		}
	})
	<-held.onTheWay
	j.reconnected()
	reading.Wait()
	all, err := j.Verify(ctx)
	require.NoError(t, err)
	assert.True(t, all[0].OK(), "%+v", all[0])
	assert.Zero(t, all[0].Pending)
}
