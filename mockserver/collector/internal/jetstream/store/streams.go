package store

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A Publisher appends messages to streams.
type Publisher interface {
	// Publish appends a message to the stream of its subject, and returns its sequence number. If
	// the server rejects the message, the error is a *jetstream.APIError. isUnsent lists the other
	// errors that mean that the message is not stored.
	Publish(ctx context.Context, m *nats.Msg) (seq uint64, err error)
}

// Streams is the part of JetStream that the journal uses. Connected implements it for servers, and
// tests can keep the streams in memory. If a stream, consumer or message is missing, the error is
// jetstream.ErrStreamNotFound, ErrConsumerNotFound or ErrMsgNotFound.
type Streams interface {
	Publisher

	// Create creates a stream. Update changes the limits of a stream.
	Create(ctx context.Context, config jetstream.StreamConfig) error
	Update(ctx context.Context, config jetstream.StreamConfig) error
	// Info returns the configuration and state of a stream.
	Info(ctx context.Context, stream string) (*jetstream.StreamInfo, error)
	// Deleted returns the sequence numbers of deleted messages between the first and the
	// last message, in order.
	Deleted(ctx context.Context, stream string) ([]uint64, error)
	// Subjects returns the number of messages of each matching subject.
	Subjects(ctx context.Context, stream, filter string) (map[string]uint64, error)

	// Get returns a message. Next returns the first message of a subject at or after a sequence
	// number. Last returns the last message of a subject.
	Get(ctx context.Context, stream string, seq uint64) (*jetstream.RawStreamMsg, error)
	Next(ctx context.Context, stream, subject string, seq uint64) (*jetstream.RawStreamMsg, error)
	Last(ctx context.Context, stream, subject string) (*jetstream.RawStreamMsg, error)
	// Delete removes a message. Purge removes messages of a subject, or of all subjects if the
	// subject is empty. It removes the messages before a sequence number, or all messages if the
	// number is 0.
	Delete(ctx context.Context, stream string, seq uint64) error
	Purge(ctx context.Context, stream, subject string, before uint64) error

	// Consumer returns an existing consumer.
	Consumer(ctx context.Context, stream, name string) (Consumer, error)
	CreateConsumer(ctx context.Context, stream string, config jetstream.ConsumerConfig) (Consumer, error)
	UpdateConsumer(ctx context.Context, stream string, config jetstream.ConsumerConfig) (Consumer, error)
	DeleteConsumer(ctx context.Context, stream, name string) error
}

// A Consumer delivers messages of a stream.
type Consumer interface {
	// CachedInfo returns the information from the time when the consumer was found or created.
	// Info requests the current information.
	CachedInfo() *jetstream.ConsumerInfo
	Info(ctx context.Context) (*jetstream.ConsumerInfo, error)
	// Fetch requests up to the given number of messages until the deadline of ctx. The batch ends
	// without an error when the messages have arrived or its size limit is reached. The error is
	// jetstream.ErrNoHeartbeat if the server was silent for up to three heartbeats. Fetch may be
	// called only if the previous batch ended without an error.
	Fetch(ctx context.Context, messages int, heartbeat time.Duration) (Batch, error)
	// Stop releases the consumer's resources in the client.
	Stop()
}

// A Batch receives the messages of a request.
type Batch interface {
	// Messages returns a channel that is closed when the batch ends.
	Messages() <-chan *nats.Msg
	// Error returns the error that has ended the batch, or nil.
	Error() error
	// Position returns the number of messages that the consumer has delivered, and the last sequence
	// number of the stream that it has passed, according to the last heartbeat.
	Position() (delivered, seq uint64)
}
