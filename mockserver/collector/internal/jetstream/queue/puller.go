package queue

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
)

const (
	// pullExpires is how long a server keeps a request for messages.
	pullExpires         = 10 * time.Second
	pullExpiresEmbedded = 5 * time.Minute
	// pullHeartbeat is how often a server says that it keeps a request. Without a word for
	// longer a request is taken for lost: the server that kept it has gone, or is cut off.
	pullHeartbeat         = 1500 * time.Millisecond
	pullHeartbeatEmbedded = 2 * time.Minute
	// repairPause is how long a puller waits after its consumer did not answer.
	repairPause = 100 * time.Millisecond
)

// errGap says that what a server has handed out has not come, and what is after it has.
var errGap = errors.New("journal: a message has not come")

func newPuller(q *Queue, kind string, wanted func() int, got func(context.Context, jetstream.Msg, *jetstream.MsgMetadata)) *puller {
	return &puller{queue: q, kind: kind, wanted: wanted, got: got, wake: make(chan struct{}, 1)}
}

// run asks until the queue is closed. It begins anew when the connection is another, or
// the server does not keep what it was asked: then what it has handed out may not have
// come. A cluster hands it out again when nobody gives a sign of life for it. That is too
// late where this process alone asks: what has ended behind it would count it as ended, or
// come before it. So there is another consumer.
func (p *puller) run() {
	missed := false
	for {
		made, err := p.session(missed)
		if p.queue.ctx.Err() != nil {
			return
		}
		p.queue.set.Log.Debug("messages are asked for anew", "destination", p.queue.name, "stream", p.kind, "error", err)
		missed = missed || made
		if pause.For(p.queue.ctx, repairPause) != nil {
			return
		}
	}
}

// session asks on the connection as it is now. It reports whether it had a consumer.
func (p *puller) session(missed bool) (made bool, err error) {
	p.queue.mu.Lock()
	ctx, cancel := context.WithCancel(p.queue.phase)
	p.alone = !p.queue.set.Shared || p.queue.hold != nil && p.kind == record.StreamCalls
	p.queue.mu.Unlock()
	defer cancel()
	defer context.AfterFunc(p.queue.set.Link.Load().Lost, cancel)()
	p.came = 0
	consumer, err := p.consumer(ctx, missed && p.alone)
	if err != nil {
		return false, err
	}
	defer consumer.Stop()
	for err == nil {
		err = p.fetch(ctx, consumer)
	}
	return true, err
}

// consumer returns the consumer, which it makes if it is gone, or to be another.
func (p *puller) consumer(ctx context.Context, another bool) (store.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, store.AskPatience)
	defer cancel()
	js, stream, name := p.queue.set.JS, p.queue.set.Names.Stream(p.kind), p.queue.consumerName(p.kind)
	if another {
		if err := js.DeleteConsumer(ctx, stream, name); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
			return nil, err
		}
	}
	if consumer, err := js.Consumer(ctx, stream, name); !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return consumer, err
	}
	if err := p.queue.ensure(ctx); err != nil {
		return nil, err
	}
	return js.Consumer(ctx, stream, name)
}

// fetch waits until messages are wanted, asks for as many, and takes what comes.
func (p *puller) fetch(ctx context.Context, consumer store.Consumer) error {
	n := p.wanted()
	for ; n <= 0; n = p.wanted() {
		select {
		case <-p.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
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
			err = ctx.Err() // what has come on a connection that is lost comes again
		}
		if err != nil {
			return err
		}
		if p.alone && p.queue.set.Shared {
			if p.came++; meta.Sequence.Consumer != p.came {
				return errGap
			}
		}
		p.got(ctx, m, meta)
		p.queue.pull()
	}
	if err := batch.Error(); err != nil {
		return err
	}
	return limited.Err() // the server says before that the request has expired
}
