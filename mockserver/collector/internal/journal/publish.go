package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
)

const (
	// tryPatience is how long a cluster may take to answer before a message is
	// published again, and publishPatience how long it is tried.
	tryPatience     = 1500 * time.Millisecond
	publishPatience = 10 * time.Second
	requestPatience = 5 * time.Second
	// clusterAnswer is how long a sender waits for a cluster. It is told to send again
	// before two seconds are over, while the message is still tried.
	clusterAnswer = 1750 * time.Millisecond
	// askPatience is how long a server of a cluster may take to answer where another
	// one may be asked instead.
	askPatience = 2 * time.Second
)

// Error codes of JetStream.
const (
	codeStoreFailed   = 10077 // here: the stream has reached its MaxBytes
	codeWrongSequence = 10071
)

// A serverError is an answer of JetStream.
type serverError struct {
	Code        int    `json:"code"`
	ErrCode     int    `json:"err_code"`
	Description string `json:"description"`
}

func (e *serverError) Error() string {
	return fmt.Sprintf("%s (NATS error %d)", e.Description, e.ErrCode)
}

// publish stores a message and returns its sequence number. On a cluster it
// tries again; where a message must not be stored twice it needs a Nats-Msg-Id.
func (j *Journal) publish(ctx context.Context, nc *nats.Conn, m *nats.Msg) (uint64, error) {
	ctx, stop, err := j.while(ctx, publishPatience)
	if err != nil {
		return 0, err
	}
	defer stop()
	return j.publishUntil(ctx, nc, m)
}

// publishUntil tries until ctx ends. Its error is an unansweredError where the
// message may be stored.
func (j *Journal) publishUntil(ctx context.Context, nc *nats.Conn, m *nats.Msg) (uint64, error) {
	unanswered := false
	for {
		seq, err := j.try(ctx, nc, m)
		if err == nil {
			return seq, nil
		}
		var refused *serverError
		isRefused := errors.As(err, &refused)
		unanswered = unanswered || !isRefused && !isUnsent(err)
		if isRefused || ctx.Err() != nil || j.options.NATS == nil || sleep(ctx, 100*time.Millisecond) != nil {
			if err = wrapStorage(err); unanswered {
				err = &unansweredError{err}
			}
			return 0, err
		}
	}
}

// isUnsent reports whether a message came to no server.
func isUnsent(err error) bool {
	for _, unsent := range []error{nats.ErrNoResponders, nats.ErrConnectionClosed, nats.ErrReconnectBufExceeded, nats.ErrMaxPayload} {
		if errors.Is(err, unsent) {
			return true
		}
	}
	return false
}

// while returns a context that ends with ctx, after patience (0 is none), or when
// the store cannot be written to.
func (j *Journal) while(ctx context.Context, patience time.Duration) (context.Context, func(), error) {
	up, err := j.health.up()
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	limited, stop := ctx, context.CancelFunc(func() {})
	if patience > 0 {
		limited, stop = context.WithTimeoutCause(ctx, patience, errNoAnswer)
	}
	unlink := context.AfterFunc(up, func() { cancel(context.Cause(up)) })
	return limited, func() { unlink(); stop(); cancel(nil) }, nil
}

var errNoAnswer = errors.New("journal: the store does not answer")

// try publishes once. Once it returns no error, the message is stored.
func (j *Journal) try(ctx context.Context, nc *nats.Conn, m *nats.Msg) (uint64, error) {
	try := ctx
	if j.options.NATS != nil {
		var stop func()
		try, stop = context.WithTimeout(ctx, tryPatience)
		defer stop()
	}
	if len(m.Header) == 0 {
		m.Header = nats.Header{headerPlain: []string{"1"}}
	}
	answer, err := nc.RequestMsgWithContext(try, m)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return 0, fmt.Errorf("journal: storing: %w", err)
	}
	var ack struct {
		Seq   uint64       `json:"seq"`
		Error *serverError `json:"error"`
	}
	if err := json.Unmarshal(answer.Data, &ack); err != nil {
		return 0, fmt.Errorf("journal: the server's answer cannot be read: %w", err)
	}
	if ack.Error != nil {
		return 0, fmt.Errorf("journal: storing: %w", ack.Error)
	}
	if err := j.proveSynced(); err != nil {
		return 0, fmt.Errorf("journal: storing: %w", err)
	}
	return ack.Seq, nil
}

// isWrongSequence tells whether another process was faster.
func isWrongSequence(err error) bool {
	var refused *serverError
	return errors.As(err, &refused) && refused.ErrCode == codeWrongSequence
}

// wrapStorage turns the error that means that CALLS has reached its limit into
// ErrJournalFull.
func wrapStorage(err error) error {
	var refused *serverError
	if errors.As(err, &refused) && refused.ErrCode == codeStoreFailed {
		return fmt.Errorf("%w: %w", journal.ErrFull, err)
	}
	return err
}
