package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
)

const (
	// tryTimeout limits one try to publish a message on a cluster. PublishTimeout limits all
	// tries together.
	tryTimeout     = 1500 * time.Millisecond
	PublishTimeout = 10 * time.Second
	RequestTimeout = 5 * time.Second
	// ClusterAppendTimeout is how long Append waits for a cluster, because the sender must get a
	// response within two seconds. After that, the message is tried in the background.
	ClusterAppendTimeout = 1750 * time.Millisecond
	// QueryTimeout limits the wait for one server of a cluster, before another server is queried
	// instead.
	QueryTimeout = 2 * time.Second
)

const (
	// codeStoreFailed is the server's error code for a stream that has reached its MaxBytes.
	codeStoreFailed = 10077
	// codeBeingStored is the server's error code for a message ID if an earlier try to publish the
	// message has not ended.
	codeBeingStored = 10158
	// codeConflict is the error code of a cluster for a message with ExpectLast while another message of
	// the subject is being stored. That message may still be lost.
	codeConflict = jetstream.JSErrCodeStreamWrongLastSequenceConstant
	// undecidedPause is the delay between two tries after one of these two codes.
	undecidedPause = 25 * time.Millisecond
)

// isUndecided reports whether the server rejected a message only because another message is being stored.
// The result of another try may differ.
func isUndecided(err error) bool {
	refused, ok := errors.AsType[*jetstream.APIError](err)
	return ok && (refused.ErrorCode == codeBeingStored || refused.ErrorCode == codeConflict)
}

// Publish stores a message and returns its sequence number. On a cluster, it retries. A message that
// must not be stored twice needs a Nats-Msg-Id.
func (s *Store) Publish(ctx context.Context, m *nats.Msg) (uint64, error) {
	ctx, stop, err := s.WritableContext(ctx, PublishTimeout)
	if err != nil {
		return 0, err
	}
	defer stop()
	return s.PublishUntil(ctx, s.JS, m)
}

// PublishUntil is like Publish, but retries until ctx ends. MayBeStored reports whether the message
// may have been stored despite the error.
func (s *Store) PublishUntil(ctx context.Context, to Publisher, m *nats.Msg) (uint64, error) {
	mayBeStored := false
	for {
		seq, err := s.Try(ctx, to, m)
		if err == nil {
			return seq, nil
		}
		_, isRefused := errors.AsType[*jetstream.APIError](err)
		isRefused = isRefused && !isUndecided(err)
		mayBeStored = mayBeStored || !isRefused && !isUnsent(err)
		if isRefused || ctx.Err() != nil || !s.Shared || pause.For(ctx, 100*time.Millisecond) != nil {
			if err = wrapStorage(err); mayBeStored {
				err = &noResponseError{err}
			}
			return 0, err
		}
	}
}

// isUnsent reports whether err means that no server has received the message.
func isUnsent(err error) bool {
	return isOneOf(err, []error{nats.ErrNoResponders, jetstream.ErrNoStreamResponse, nats.ErrConnectionClosed, nats.ErrReconnectBufExceeded, nats.ErrMaxPayload})
}

// WritableContext returns a context that ends with ctx, or when the store cannot be written to. If
// timeout is not 0, the context also ends after timeout.
func (s *Store) WritableContext(ctx context.Context, timeout time.Duration) (context.Context, func(), error) {
	up, err := s.Status.Writable()
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	limited, stop := ctx, context.CancelFunc(func() {})
	if timeout > 0 {
		limited, stop = context.WithTimeoutCause(ctx, timeout, journal.ErrNoResponse)
	}
	unlink := context.AfterFunc(up, func() { cancel(context.Cause(up)) })
	return limited, func() { unlink(); stop(); cancel(nil) }, nil
}

// RetryAfterOutage calls try with a context that also ends when the store cannot be written to. After
// such an outage, it calls try again. It waits for the store to recover, up to RequestTimeout in total,
// and then returns the store's error.
func (s *Store) RetryAfterOutage(ctx context.Context, try func(context.Context) error) error {
	for left := RequestTimeout; ; {
		began := time.Now()
		wait, cancel := context.WithTimeout(ctx, left)
		s.Status.await(wait)
		cancel()
		left -= time.Since(began)
		up, stop, err := s.WritableContext(ctx, 0)
		if err != nil {
			return err
		}
		err = try(up)
		fell := up.Err() != nil && ctx.Err() == nil
		stop()
		if err == nil || !fell {
			return err
		}
	}
}

// Try publishes a message once. If it returns nil, the message is stored. If another message is being
// stored, Try waits for the server's decision.
func (s *Store) Try(ctx context.Context, to Publisher, m *nats.Msg) (uint64, error) {
	try := ctx
	if s.Shared {
		var stop func()
		try, stop = context.WithTimeout(ctx, tryTimeout)
		defer stop()
	}
	if len(m.Header) == 0 {
		m.Header = nats.Header{record.HeaderPlain: []string{"1"}}
	}
	seq, err := to.Publish(try, m)
	for isUndecided(err) && pause.For(try, undecidedPause) == nil {
		seq, err = to.Publish(try, m)
	}
	s.Changes.Add(1)
	switch {
	case err == nil:
		err = s.CheckSynced()
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	if err != nil {
		return 0, fmt.Errorf("journal: storing: %w", err)
	}
	return seq, nil
}

// ExpectLast makes the server reject m unless message seq is the last one of its subject. If seq is 0,
// the subject must not have a message.
func ExpectLast(m *nats.Msg, seq uint64) {
	m.Header.Set(nats.ExpectedLastSubjSeqHdr, strconv.FormatUint(seq, 10))
}

// IsWrongSequence reports whether err means that another message was stored first.
func IsWrongSequence(err error) bool {
	refused, ok := errors.AsType[*jetstream.APIError](err)
	return ok && refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence
}

// wrapStorage wraps the error of a full stream with journal.ErrFull.
func wrapStorage(err error) error {
	if refused, ok := errors.AsType[*jetstream.APIError](err); ok && refused.ErrorCode == codeStoreFailed {
		return fmt.Errorf("%w: %w", journal.ErrFull, err)
	}
	return err
}

// A noResponseError is the error of a message that was sent but got no response. The message may
// have been stored.
type noResponseError struct{ error }

func (e *noResponseError) Unwrap() error { return e.error }

// MayBeStored reports whether a message may have been stored despite the error.
func MayBeStored(err error) bool {
	_, ok := errors.AsType[*noResponseError](err)
	return ok
}

// Identify sets a message ID. A cluster then stores the message only once, even if it is published
// twice.
func (s *Store) Identify(m *nats.Msg) {
	if s.Shared {
		m.Header.Set(nats.MsgIdHdr, fmt.Sprintf("%x-%x", s.Writer, s.messages.Add(1)))
	}
}
