package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
)

const (
	// tryPatience is how long a cluster may take to answer before a message is
	// published again, and PublishPatience how long it is tried.
	tryPatience     = 1500 * time.Millisecond
	PublishPatience = 10 * time.Second
	RequestPatience = 5 * time.Second
	// ClusterAnswer is how long a sender waits for a cluster. It is told to send again
	// before two seconds are over, while the message is still tried.
	ClusterAnswer = 1750 * time.Millisecond
	// AskPatience is how long a server of a cluster may take to answer where another
	// one may be asked instead.
	AskPatience = 2 * time.Second
)

// codeStoreFailed is what a server answers where a stream has reached its MaxBytes.
const codeStoreFailed = 10077

// Publish stores a message and returns its sequence number. On a cluster it
// tries again; where a message must not be stored twice it needs a Nats-Msg-Id.
func (s *Store) Publish(ctx context.Context, m *nats.Msg) (uint64, error) {
	ctx, stop, err := s.While(ctx, PublishPatience)
	if err != nil {
		return 0, err
	}
	defer stop()
	return s.PublishUntil(ctx, s.JS, m)
}

// PublishUntil tries until ctx ends. Its error is an unansweredError where the
// message may be stored.
func (s *Store) PublishUntil(ctx context.Context, to Publisher, m *nats.Msg) (uint64, error) {
	unanswered := false
	for {
		seq, err := s.Try(ctx, to, m)
		if err == nil {
			return seq, nil
		}
		_, isRefused := errors.AsType[*jetstream.APIError](err)
		unanswered = unanswered || !isRefused && !isUnsent(err)
		if isRefused || ctx.Err() != nil || !s.Shared || pause.For(ctx, 100*time.Millisecond) != nil {
			if err = wrapStorage(err); unanswered {
				err = &unansweredError{err}
			}
			return 0, err
		}
	}
}

// isUnsent reports whether a message came to no server.
func isUnsent(err error) bool {
	return isOneOf(err, []error{nats.ErrNoResponders, jetstream.ErrNoStreamResponse, nats.ErrConnectionClosed, nats.ErrReconnectBufExceeded, nats.ErrMaxPayload})
}

// While returns a context that ends with ctx, after patience (0 is none), or when
// the store cannot be written to.
func (s *Store) While(ctx context.Context, patience time.Duration) (context.Context, func(), error) {
	up, err := s.Status.Writable()
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	limited, stop := ctx, context.CancelFunc(func() {})
	if patience > 0 {
		limited, stop = context.WithTimeoutCause(ctx, patience, ErrNoAnswer)
	}
	unlink := context.AfterFunc(up, func() { cancel(context.Cause(up)) })
	return limited, func() { unlink(); stop(); cancel(nil) }, nil
}

// Outlast calls try with a context that also ends when the store cannot be written to, and
// again once it can. It waits for the store for RequestPatience in all, and then returns the
// store's error.
func (s *Store) Outlast(ctx context.Context, try func(context.Context) error) error {
	for left := RequestPatience; ; {
		began := time.Now()
		wait, cancel := context.WithTimeout(ctx, left)
		s.Status.await(wait)
		cancel()
		left -= time.Since(began)
		up, stop, err := s.While(ctx, 0)
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

// ErrNoAnswer is why something ended that the store has not answered in time.
var ErrNoAnswer = errors.New("journal: the store does not answer")

// Try publishes once. Once it returns no error, the message is stored.
func (s *Store) Try(ctx context.Context, to Publisher, m *nats.Msg) (uint64, error) {
	try := ctx
	if s.Shared {
		var stop func()
		try, stop = context.WithTimeout(ctx, tryPatience)
		defer stop()
	}
	if len(m.Header) == 0 {
		m.Header = nats.Header{record.HeaderPlain: []string{"1"}}
	}
	seq, err := to.Publish(try, m)
	s.Changes.Add(1)
	switch {
	case err == nil:
		err = s.ProveSynced()
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	if err != nil {
		return 0, fmt.Errorf("journal: storing: %w", err)
	}
	return seq, nil
}

// IsWrongSequence reports whether another process was faster, or is about to be.
func IsWrongSequence(err error) bool {
	refused, ok := errors.AsType[*jetstream.APIError](err)
	return ok &&
		(refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

// wrapStorage turns the error that means that CALLS has reached its limit into
// ErrJournalFull.
func wrapStorage(err error) error {
	if refused, ok := errors.AsType[*jetstream.APIError](err); ok && refused.ErrorCode == codeStoreFailed {
		return fmt.Errorf("%w: %w", journal.ErrFull, err)
	}
	return err
}

// An unansweredError is that of a message that was sent and not answered: it may be
// stored.
type unansweredError struct{ error }

func (e *unansweredError) Unwrap() error { return e.error }

// IsUnanswered reports whether a message may be stored though an error was returned.
func IsUnanswered(err error) bool {
	_, ok := errors.AsType[*unansweredError](err)
	return ok
}

// Identify names a message, so that a cluster stores it once though it may be
// published twice.
func (s *Store) Identify(m *nats.Msg) {
	if s.Shared {
		m.Header.Set(nats.MsgIdHdr, fmt.Sprintf("%x-%x", s.Writer, s.messages.Add(1)))
	}
}
