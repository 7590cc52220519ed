package store

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
)

// connected implements Streams over a connection. Except for Publish, an error is journal.ErrNoAnswer if no
// server responds.
type connected struct {
	nc *nats.Conn
	js jetstream.JetStream

	mu    sync.Mutex // guards found
	found map[string]jetstream.Stream
}

// Connected returns the streams of the servers that nc is connected to.
func Connected(nc *nats.Conn) (Streams, error) {
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(RequestTimeout))
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	return &connected{nc: nc, js: js, found: map[string]jetstream.Stream{}}, nil
}

// noAnswer adds journal.ErrNoAnswer to an error of a request to which no server responded.
func noAnswer(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil || !isOneOf(err, lostConnection) && !isOneOf(err, unanswered) || errors.Is(err, journal.ErrNoAnswer) {
		return err
	}
	return fmt.Errorf("%w: %w", journal.ErrNoAnswer, err)
}

func (c *connected) Publish(ctx context.Context, m *nats.Msg) (uint64, error) {
	ack, err := c.js.PublishMsg(ctx, m, jetstream.WithRetryAttempts(0)) // callers decide whether to retry
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

// stream returns a stream. It caches the stream after the first call.
func (c *connected) stream(ctx context.Context, name string) (jetstream.Stream, error) {
	c.mu.Lock()
	stream := c.found[name]
	c.mu.Unlock()
	if stream != nil {
		return stream, nil
	}
	stream, err := c.js.Stream(ctx, name)
	if err != nil {
		return nil, noAnswer(ctx, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.found[name] = stream
	return stream, nil
}

func (c *connected) Create(ctx context.Context, config jetstream.StreamConfig) error {
	_, err := c.js.CreateStream(ctx, config)
	return noAnswer(ctx, err)
}

func (c *connected) Update(ctx context.Context, config jetstream.StreamConfig) error {
	_, err := c.js.UpdateStream(ctx, config)
	return noAnswer(ctx, err)
}

func (c *connected) info(ctx context.Context, name string, options ...jetstream.StreamInfoOpt) (*jetstream.StreamInfo, error) {
	stream, err := c.stream(ctx, name)
	if err != nil {
		return nil, err
	}
	info, err := stream.Info(ctx, options...)
	return info, noAnswer(ctx, err)
}

func (c *connected) Info(ctx context.Context, name string) (*jetstream.StreamInfo, error) {
	return c.info(ctx, name)
}

func (c *connected) Deleted(ctx context.Context, name string) ([]uint64, error) {
	info, err := c.info(ctx, name, jetstream.WithDeletedDetails(true))
	if err != nil {
		return nil, err
	}
	return info.State.Deleted, nil
}

func (c *connected) Subjects(ctx context.Context, name, filter string) (map[string]uint64, error) {
	info, err := c.info(ctx, name, jetstream.WithSubjectFilter(filter))
	if err != nil {
		return nil, err
	}
	return info.State.Subjects, nil
}

func (c *connected) Get(ctx context.Context, name string, seq uint64) (*jetstream.RawStreamMsg, error) {
	stream, err := c.stream(ctx, name)
	if err != nil {
		return nil, err
	}
	m, err := stream.GetMsg(ctx, seq)
	return m, noAnswer(ctx, err)
}

func (c *connected) Next(ctx context.Context, name, subject string, seq uint64) (*jetstream.RawStreamMsg, error) {
	stream, err := c.stream(ctx, name)
	if err != nil {
		return nil, err
	}
	m, err := stream.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(subject))
	return m, noAnswer(ctx, err)
}

func (c *connected) Last(ctx context.Context, name, subject string) (*jetstream.RawStreamMsg, error) {
	stream, err := c.stream(ctx, name)
	if err != nil {
		return nil, err
	}
	m, err := stream.GetLastMsgForSubject(ctx, subject)
	return m, noAnswer(ctx, err)
}

func (c *connected) Delete(ctx context.Context, name string, seq uint64) error {
	stream, err := c.stream(ctx, name)
	if err != nil {
		return err
	}
	return noAnswer(ctx, stream.DeleteMsg(ctx, seq))
}

func (c *connected) Purge(ctx context.Context, name, subject string, before uint64) error {
	stream, err := c.stream(ctx, name)
	if err != nil {
		return err
	}
	return noAnswer(ctx, stream.Purge(ctx, func(r *jetstream.StreamPurgeRequest) error {
		r.Subject, r.Sequence = subject, before
		return nil
	}))
}

func (c *connected) Consumer(ctx context.Context, stream, name string) (Consumer, error) {
	found, err := c.js.Consumer(ctx, stream, name)
	return c.consumer(found, noAnswer(ctx, err))
}

func (c *connected) CreateConsumer(ctx context.Context, stream string, config jetstream.ConsumerConfig) (Consumer, error) {
	found, err := c.js.CreateConsumer(ctx, stream, config)
	return c.consumer(found, noAnswer(ctx, err))
}

func (c *connected) UpdateConsumer(ctx context.Context, stream string, config jetstream.ConsumerConfig) (Consumer, error) {
	found, err := c.js.UpdateConsumer(ctx, stream, config)
	return c.consumer(found, noAnswer(ctx, err))
}

func (c *connected) consumer(found jetstream.Consumer, err error) (Consumer, error) {
	if err != nil {
		return nil, err
	}
	return &consumer{Consumer: found, nc: c.nc}, nil
}

func (c *connected) DeleteConsumer(ctx context.Context, stream, name string) error {
	return noAnswer(ctx, c.js.DeleteConsumer(ctx, stream, name))
}
