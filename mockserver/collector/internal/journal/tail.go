package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A tail reads a stream in its order, each message once, from next on. It makes
// its consumer again when the server that has it is gone, and goes on where it
// was.
type tail struct {
	nc          *nats.Conn
	js          jetstream.JetStream
	stream      string
	subjects    []string // none: all
	headersOnly bool
	next        uint64    // the message to begin with
	since       time.Time // where next is 0: the time to begin with
	batch       int       // how many messages are asked for at once
	heartbeat   time.Duration
	// handle takes a message. left is how many the stream had after it. An error
	// ends the tail; errEnough ends it without one.
	handle func(m *nats.Msg, seq uint64, left uint64) error
	// trouble is told why a consumer is made again.
	trouble func(error)
}

// errEnough ends a tail.
var errEnough = errors.New("enough")

// handlerError is an error of the handler, which ends the tail.
type handlerError struct{ error }

func (e handlerError) Unwrap() error { return e.error }

// follow reads until ctx ends or handle returns an error.
func (t *tail) follow(ctx context.Context) error { return t.run(ctx, false) }

// scan reads what the stream has now, and what comes while it reads.
func (t *tail) scan(ctx context.Context) error { return t.run(ctx, true) }

func (t *tail) run(ctx context.Context, finite bool) error {
	for {
		err := t.session(ctx, finite)
		var handler handlerError
		switch {
		case errors.Is(err, errEnough):
			return nil
		case errors.As(err, &handler):
			return handler.error
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		t.trouble(err)
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// session reads by one consumer until something goes wrong. A finite one ends
// with errEnough when nothing is left.
func (t *tail) session(ctx context.Context, finite bool) error {
	config := jetstream.ConsumerConfig{
		Description: "reads in order", AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: t.next,
		FilterSubjects: t.subjects, HeadersOnly: t.headersOnly, InactiveThreshold: time.Minute,
	}
	if t.next == 0 {
		config.DeliverPolicy, config.OptStartTime = jetstream.DeliverByStartTimePolicy, &t.since
	}
	consumer, err := t.js.CreateConsumer(ctx, t.stream, config)
	if err != nil {
		return fmt.Errorf("reading %s: %w", t.stream, err)
	}
	info := consumer.CachedInfo()
	defer func() {
		_ = t.js.DeleteConsumer(context.WithoutCancel(ctx), t.stream, info.Name) // else it goes by itself
	}()
	if finite && info.NumPending == 0 {
		return errEnough
	}
	sub, err := t.nc.SubscribeSync(t.nc.NewInbox())
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }()
	stop := context.AfterFunc(ctx, func() { _ = sub.Unsubscribe() })
	defer stop()
	return t.read(sub, info.Name, finite)
}

// read asks for messages and handles them.
func (t *tail) read(sub *nats.Subscription, consumer string, finite bool) error {
	request, _ := json.Marshal(pullRequest{Batch: t.batch, Expires: 60 * t.heartbeat, Heartbeat: t.heartbeat})
	subject := "$JS.API.CONSUMER.MSG.NEXT." + t.stream + "." + consumer
	var delivered uint64
	for wanted := 0; ; {
		if wanted == 0 {
			if err := t.nc.PublishRequest(subject, sub.Subject, request); err != nil {
				return err
			}
			wanted = t.batch
		}
		m, err := sub.NextMsg(5 * t.heartbeat / 2)
		if err != nil {
			return err
		}
		if status := m.Header.Get("Status"); status != "" {
			switch status {
			case "100": // it is there
			case "408":
				wanted = 0
			default:
				return fmt.Errorf("reading %s: %s %s", t.stream, status, m.Header.Get("Description"))
			}
			continue
		}
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		if delivered++; meta.Sequence.Consumer != delivered {
			return fmt.Errorf("reading %s: a message was missed", t.stream)
		}
		wanted--
		if err := t.handle(m, meta.Sequence.Stream, meta.NumPending); err != nil {
			return handlerError{err}
		}
		t.next = meta.Sequence.Stream + 1
		if finite && meta.NumPending == 0 {
			return errEnough
		}
	}
}

// A pullRequest asks a consumer for messages.
type pullRequest struct {
	Batch     int           `json:"batch"`
	Expires   time.Duration `json:"expires"`
	Heartbeat time.Duration `json:"idle_heartbeat,omitempty"`
}

// sleep waits, or returns why ctx ended.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
