package store

import (
	"context"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
)

// connected implements Streams over a connection. Except for Publish, an error is
// journal.ErrNoResponse if no server responds.
type connected struct {
	nc *nats.Conn
	js jetstream.JetStream // used only by Publish and request

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

// request makes a request. It adds journal.ErrNoResponse to the error if no server responds.
func request[T any](ctx context.Context, c *connected, do func(jetstream.JetStream) (T, error)) (T, error) {
	result, err := do(c.js)
	return result, markNoResponse(ctx, err)
}

// markNoResponse adds journal.ErrNoResponse to the error of a request if no server responded.
func markNoResponse(ctx context.Context, err error) error {
	if err != nil && ctx.Err() == nil && (isOneOf(err, lostConnection) || isOneOf(err, noResponse)) {
		return fmt.Errorf("%w: %w", journal.ErrNoResponse, err)
	}
	return err
}

// onStream makes a request about a stream. It caches the stream after the first request.
func onStream[T any](ctx context.Context, c *connected, name string, do func(jetstream.Stream) (T, error)) (T, error) {
	return request(ctx, c, func(js jetstream.JetStream) (result T, err error) {
		c.mu.Lock()
		stream := c.found[name]
		c.mu.Unlock()
		if stream == nil {
			if stream, err = js.Stream(ctx, name); err != nil {
				return result, err
			}
			c.mu.Lock()
			c.found[name] = stream
			c.mu.Unlock()
		}
		return do(stream)
	})
}

func (c *connected) Publish(ctx context.Context, m *nats.Msg) (uint64, error) {
	ack, err := c.js.PublishMsg(ctx, m, jetstream.WithRetryAttempts(0)) // callers decide whether to retry
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

func (c *connected) Create(ctx context.Context, config jetstream.StreamConfig) error {
	_, err := request(ctx, c, func(js jetstream.JetStream) (jetstream.Stream, error) { return js.CreateStream(ctx, config) })
	return err
}

func (c *connected) Update(ctx context.Context, config jetstream.StreamConfig) error {
	_, err := request(ctx, c, func(js jetstream.JetStream) (jetstream.Stream, error) { return js.UpdateStream(ctx, config) })
	return err
}

func (c *connected) info(ctx context.Context, name string, options ...jetstream.StreamInfoOpt) (*jetstream.StreamInfo, error) {
	return onStream(ctx, c, name, func(s jetstream.Stream) (*jetstream.StreamInfo, error) { return s.Info(ctx, options...) })
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
	return onStream(ctx, c, name, func(s jetstream.Stream) (*jetstream.RawStreamMsg, error) { return s.GetMsg(ctx, seq) })
}

func (c *connected) Next(ctx context.Context, name, subject string, seq uint64) (*jetstream.RawStreamMsg, error) {
	return onStream(ctx, c, name, func(s jetstream.Stream) (*jetstream.RawStreamMsg, error) {
		return s.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(subject))
	})
}

func (c *connected) Last(ctx context.Context, name, subject string) (*jetstream.RawStreamMsg, error) {
	return onStream(ctx, c, name, func(s jetstream.Stream) (*jetstream.RawStreamMsg, error) { return s.GetLastMsgForSubject(ctx, subject) })
}

func (c *connected) Delete(ctx context.Context, name string, seq uint64) error {
	_, err := onStream(ctx, c, name, func(s jetstream.Stream) (any, error) { return nil, s.DeleteMsg(ctx, seq) })
	return err
}

func (c *connected) Purge(ctx context.Context, name, subject string, before uint64) error {
	_, err := onStream(ctx, c, name, func(s jetstream.Stream) (any, error) {
		return nil, s.Purge(ctx, func(r *jetstream.StreamPurgeRequest) error {
			r.Subject, r.Sequence = subject, before
			return nil
		})
	})
	return err
}

func (c *connected) Consumer(ctx context.Context, stream, name string) (Consumer, error) {
	return c.consumer(ctx, func(js jetstream.JetStream) (jetstream.Consumer, error) { return js.Consumer(ctx, stream, name) })
}

func (c *connected) CreateConsumer(ctx context.Context, stream string, config jetstream.ConsumerConfig) (Consumer, error) {
	return c.consumer(ctx, func(js jetstream.JetStream) (jetstream.Consumer, error) {
		return js.CreateConsumer(ctx, stream, config)
	})
}

func (c *connected) UpdateConsumer(ctx context.Context, stream string, config jetstream.ConsumerConfig) (Consumer, error) {
	return c.consumer(ctx, func(js jetstream.JetStream) (jetstream.Consumer, error) {
		return js.UpdateConsumer(ctx, stream, config)
	})
}

func (c *connected) consumer(ctx context.Context, do func(jetstream.JetStream) (jetstream.Consumer, error)) (Consumer, error) {
	found, err := request(ctx, c, do)
	if err != nil {
		return nil, err
	}
	return &consumer{Consumer: found, nc: c.nc}, nil
}

func (c *connected) DeleteConsumer(ctx context.Context, stream, name string) error {
	_, err := request(ctx, c, func(js jetstream.JetStream) (any, error) { return nil, js.DeleteConsumer(ctx, stream, name) })
	return err
}
