package store

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A Publisher appends messages to streams.
type Publisher interface {
	// Publish appends a message to the stream of its subject, and returns its number
	// there. A refusal is a *jetstream.APIError; see isUnsent for which other errors say
	// that the message is not stored.
	Publish(ctx context.Context, m *nats.Msg) (seq uint64, err error)
}

// Streams is what the journal asks of JetStream. Connected asks servers; a test may have
// the streams in memory. Streams and consumers are named, and what is not there is
// jetstream.ErrStreamNotFound, ErrConsumerNotFound or ErrMsgNotFound.
type Streams interface {
	Publisher

	// Create makes a stream, and Update changes the limits of one.
	Create(ctx context.Context, config jetstream.StreamConfig) error
	Update(ctx context.Context, config jetstream.StreamConfig) error
	// Info tells what a stream has.
	Info(ctx context.Context, stream string) (*jetstream.StreamInfo, error)
	// Deleted returns the numbers between the first and the last message that no message
	// has, in their order.
	Deleted(ctx context.Context, stream string) ([]uint64, error)
	// Subjects returns how many messages there are of each subject that matches.
	Subjects(ctx context.Context, stream, filter string) (map[string]uint64, error)

	// Get returns a message, Next the first of a subject from a number on, and Last the
	// last of a subject.
	Get(ctx context.Context, stream string, seq uint64) (*jetstream.RawStreamMsg, error)
	Next(ctx context.Context, stream, subject string, seq uint64) (*jetstream.RawStreamMsg, error)
	Last(ctx context.Context, stream, subject string) (*jetstream.RawStreamMsg, error)
	// Delete removes a message, and Purge those of a subject, or of all if it is empty,
	// that come before a number, or all if it is 0.
	Delete(ctx context.Context, stream string, seq uint64) error
	Purge(ctx context.Context, stream, subject string, before uint64) error

	// Consumer returns one that is there.
	Consumer(ctx context.Context, stream, name string) (Consumer, error)
	CreateConsumer(ctx context.Context, stream string, config jetstream.ConsumerConfig) (Consumer, error)
	UpdateConsumer(ctx context.Context, stream string, config jetstream.ConsumerConfig) (Consumer, error)
	DeleteConsumer(ctx context.Context, stream, name string) error

	KeyValue(ctx context.Context, bucket string) (jetstream.KeyValue, error)
}

// A Consumer hands out messages of a stream.
type Consumer interface {
	// CachedInfo tells how it was when it was made or found, and Info how it is.
	CachedInfo() *jetstream.ConsumerInfo
	Info(ctx context.Context) (*jetstream.ConsumerInfo, error)
	// Fetch asks for so many messages at most, until ctx ends, which has a deadline. The
	// batch ends when they have come, or as many as are sent in one piece, or with its error, if any, when no more will:
	// jetstream.ErrNoHeartbeat says that nothing was heard of the server for up to three
	// times as long as it may be silent. One batch must have ended, without an error,
	// before another is asked for.
	Fetch(ctx context.Context, messages int, heartbeat time.Duration) (jetstream.MessageBatch, error)
	// Stop says that nothing more is asked for.
	Stop()
}
