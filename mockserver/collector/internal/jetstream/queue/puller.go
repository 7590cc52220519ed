package queue

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
)

const (
	// pullExpires is how long the server keeps a request for messages.
	pullExpires         = time.Minute
	pullExpiresEmbedded = 5 * time.Minute
	// pullHeartbeat is the interval of the server's heartbeats for a request. If they stop,
	// the request is considered lost: the server has stopped or is unreachable.
	pullHeartbeat         = 1500 * time.Millisecond
	pullHeartbeatEmbedded = 2 * time.Minute
	// pullAhead is the number of messages of CALLS that a request may ask for at a low rate.
	pullAhead = 4
	// repairPause is the delay before the next session after a failed one.
	repairPause = 100 * time.Millisecond
)

// errGap reports that a message was lost between the server and this process.
var errGap = errors.New("journal: a message from the server is missing")

func newPuller(q *Queue, kind string, wanted func() int, handle func(context.Context, *nats.Msg, *nats.MsgMetadata)) *puller {
	return &puller{queue: q, kind: kind, wanted: wanted, handle: handle, wake: make(chan struct{}, 1)}
}

// run requests messages until the queue is closed. It starts a new session after the connection
// was replaced or a request failed, because delivered messages may have been lost.
func (p *puller) run() {
	for {
		err := p.session()
		if p.queue.ctx.Err() != nil {
			return
		}
		p.queue.set.Log.Debug("requesting messages failed; retrying", "destination", p.queue.name, "stream", p.kind, "error", err)
		if pause.For(p.queue.ctx, repairPause) != nil {
			return
		}
	}
}

// session requests messages on the current connection until a request fails.
func (p *puller) session() error {
	p.queue.mu.Lock()
	ctx, cancel := context.WithCancel(p.queue.phase)
	p.alone = !p.queue.set.Shared || p.queue.ownership != nil && p.kind == record.StreamCalls
	p.queue.mu.Unlock()
	defer cancel()
	defer context.AfterFunc(p.queue.set.Link.Load().Lost, cancel)()
	consumer, err := p.consumer(ctx)
	if err != nil {
		return err
	}
	defer consumer.Stop()
	p.begin()
	for err == nil {
		err = p.fetch(ctx, consumer)
	}
	return err
}

// begin resets the state of the previous session.
func (p *puller) begin() {
	p.newest, p.ahead = 0, false
	if p.kind == record.StreamCalls {
		p.queue.mu.Lock()
		defer p.queue.mu.Unlock()
		p.queue.handled = 0
	}
}

// consumer returns the consumer, and creates it if it is missing. Messages that it delivered in an
// earlier session may have been lost. A shared consumer redelivers them after AckWait. If only this
// process uses the consumer, that is too late: later messages would be delivered first and raise the
// low-water mark. So consumer deletes it and creates a new one.
func (p *puller) consumer(ctx context.Context) (store.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, store.QueryTimeout)
	defer cancel()
	js, stream, name := p.queue.set.JS, p.queue.set.Names.Stream(p.kind), p.queue.consumerName(p.kind)
	found, err := js.Consumer(ctx, stream, name)
	if err == nil && p.alone && found.CachedInfo().Delivered.Consumer > 0 {
		if err = js.DeleteConsumer(ctx, stream, name); err == nil {
			err = jetstream.ErrConsumerNotFound
		}
	}
	if !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return found, err
	}
	if err := p.queue.ensure(ctx); err != nil {
		return nil, err
	}
	return js.Consumer(ctx, stream, name)
}

// mayPullAhead reports whether the request after message m may ask for pullAhead messages. A cluster
// replicates and syncs each request, so one request for several messages is cheaper than several
// requests. But messages that arrive while no reader wants them stay in this process until Renew returns
// them. So a process requests more messages than its readers want only if
//   - it also received the message before m. Otherwise, another process delivers too, and may be able to
//     deliver a message that waits here.
//   - no message is left on the server. The requested messages then arrive as they are stored. During a
//     backlog, they would arrive at once, and retries would wait for them.
func (p *puller) mayPullAhead(m *nats.MsgMetadata) bool {
	return p.queue.set.Shared && p.kind == record.StreamCalls && m.Sequence.Consumer == p.newest+1 && m.NumPending == 0
}

// fetch waits until messages are wanted, requests that many, and handles them.
func (p *puller) fetch(ctx context.Context, consumer store.Consumer) error {
	n := p.wanted()
	for ; n <= 0; n = p.wanted() {
		select {
		case <-p.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if p.ahead {
		n = max(n, pullAhead)
	}
	expires, heartbeat := pullExpires, pullHeartbeat
	if !p.queue.set.Shared {
		expires, heartbeat = pullExpiresEmbedded, pullHeartbeatEmbedded
	}
	limited, cancel := context.WithTimeout(ctx, expires)
	defer cancel()
	batch, err := consumer.Fetch(limited, n, heartbeat)
	if err != nil {
		return err
	}
	for m := range batch.Messages() {
		meta, err := m.Metadata()
		if err == nil {
			err = ctx.Err() // messages of a lost connection are redelivered
		}
		if err != nil {
			return err
		}
		if p.alone && meta.Sequence.Consumer != p.newest+1 {
			return errGap
		}
		p.ahead = p.mayPullAhead(meta)
		p.newest = meta.Sequence.Consumer
		p.handle(ctx, m, meta)
		p.queue.pull()
	}
	if err := batch.Error(); err != nil {
		return err
	}
	return limited.Err() // the server must end the request before its deadline
}
