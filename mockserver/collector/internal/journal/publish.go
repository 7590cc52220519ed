package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
)

const (
	// tryPatience is how long a cluster may take to answer before a message is
	// published again, and publishPatience how long it is tried.
	tryPatience     = 1500 * time.Millisecond
	publishPatience = 10 * time.Second
	requestPatience = 5 * time.Second
)

// Error codes of JetStream.
const (
	codeStoreFailed     = 10077 // here: the stream has reached its MaxBytes
	codeResources       = 10023
	codeStorageExceeded = 10047
	codeWrongSequence   = 10071
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
	ctx, stop, err := j.while(ctx)
	if err != nil {
		return 0, err
	}
	defer stop()
	for {
		seq, err := j.try(ctx, nc, m)
		var refused *serverError
		if err == nil || errors.As(err, &refused) || ctx.Err() != nil || j.options.NATS == nil {
			return seq, wrapStorage(err)
		}
		if sleep(ctx, 100*time.Millisecond) != nil {
			return 0, err
		}
	}
}

// while returns a context that ends with ctx, after publishPatience, or when the
// store cannot be written to.
func (j *Journal) while(ctx context.Context) (context.Context, func(), error) {
	up, err := j.health.up()
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	limited, stop := context.WithTimeoutCause(ctx, publishPatience, errNoAnswer)
	unlink := context.AfterFunc(up, func() { cancel(context.Cause(up)) })
	return limited, func() { unlink(); stop(); cancel(nil) }, nil
}

var errNoAnswer = errors.New("journal: the store does not answer")

// try publishes once.
func (j *Journal) try(ctx context.Context, nc *nats.Conn, m *nats.Msg) (uint64, error) {
	try := ctx
	if j.options.NATS != nil {
		var stop func()
		try, stop = context.WithTimeout(ctx, tryPatience)
		defer stop()
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
	return ack.Seq, nil
}

// isWrongSequence tells whether another process was faster.
func isWrongSequence(err error) bool {
	var refused *serverError
	return errors.As(err, &refused) && refused.ErrCode == codeWrongSequence
}

// wrapStorage turns the errors that mean that there is no room into
// ErrJournalFull.
func wrapStorage(err error) error {
	var refused *serverError
	full := errors.As(err, &refused) && (refused.ErrCode == codeStoreFailed || refused.ErrCode == codeResources || refused.ErrCode == codeStorageExceeded)
	if full || isDiskFull(err) {
		return fmt.Errorf("%w: %w", mockserver.ErrJournalFull, err)
	}
	return err
}

// isDiskFull knows the errors of a disk, a quota or a limit that is used up.
func isDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}
