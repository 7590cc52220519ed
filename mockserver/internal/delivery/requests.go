package delivery

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/tracecontext"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

const (
	// maxTrailing is how many requests of one destination may be under way beside those of
	// its calls under way: where another webhook has taken the call they go on until they
	// are answered, or time out.
	maxTrailing = 1024
	// spareContexts bounds the request contexts of a destination that wait to be reused.
	spareContexts = 64
)

// requests are those of one destination that are under way, and their contexts. Each
// context ends with the parent or after a time, and names its delivery. What did not end
// is reused: to tie a context to its parent and to a timer takes a twentieth of a
// delivery's work.
type requests struct {
	parent  scope
	timeout time.Duration
	held    context.Context // ends when another process may deliver; nil where none does

	concurrent sync.WaitGroup // requests to one of several webhooks
	trailing   atomic.Int64   // those of them whose calls have ended

	mu    sync.Mutex // guards spare
	spare []*timedContext
}

// A scope is a context with the function that ends it.
type scope struct {
	context.Context
	end context.CancelFunc
}

func newScope(parent context.Context) scope {
	ctx, cancel := context.WithCancel(parent)
	return scope{ctx, cancel}
}

// leave reports whether the requests that have not answered may go on as trailing ones,
// and counts them until they have.
func (rs *requests) leave(answers <-chan answer, left int) bool {
	if rs.trailing.Add(int64(left)) > maxTrailing {
		rs.trailing.Add(-int64(left))
		return false
	}
	if left > 0 {
		rs.concurrent.Go(func() {
			for range left {
				<-answers
				rs.trailing.Add(-1)
			}
		})
	}
	return true
}

// An answer is what came of the request to one webhook.
type answer struct {
	from webhook.Endpoint
	webhook.Attempt
}

// A timedContext is the part of a request context that is reused.
type timedContext struct {
	context.Context // ends with the parent, or with the timer
	cancel          context.CancelCauseFunc
	timer           *time.Timer
}

// A requestContext is the context of one request.
type requestContext struct {
	*timedContext
	deadline time.Time
	delivery Info
}

// Deadline implements context.Context.
func (c *requestContext) Deadline() (time.Time, bool) { return c.deadline, true }

// Err implements context.Context.
func (c *requestContext) Err() error {
	err := c.Context.Err()
	if err != nil && context.Cause(c.Context) == context.DeadlineExceeded {
		return context.DeadlineExceeded
	}
	return err
}

// Value implements context.Context.
func (c *requestContext) Value(key any) any {
	if key == (deliveryKey{}) {
		return &c.delivery
	}
	return c.Context.Value(key)
}

// begin returns a context, to be given back with end.
func (rs *requests) begin(of Info) *requestContext {
	if rs.held != nil && rs.held.Err() != nil {
		rs.parent.end() // it may not have been told yet, after it stood still
	}
	c := &requestContext{deadline: time.Now().Add(rs.timeout), delivery: of, timedContext: rs.take()}
	if c.timedContext != nil {
		c.timer.Reset(rs.timeout)
		return c
	}
	ctx, cancel := context.WithCancelCause(rs.parent)
	timer := time.AfterFunc(rs.timeout, func() { cancel(context.DeadlineExceeded) })
	c.timedContext = &timedContext{ctx, cancel, timer}
	return c
}

func (rs *requests) take() (c *timedContext) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if n := len(rs.spare); n > 0 {
		rs.spare, c = rs.spare[:n-1], rs.spare[n-1]
	}
	return c
}

// end takes back a context. Nobody may wait for its end any more: it may never come.
func (rs *requests) end(c *requestContext) {
	inTime := c.timer.Stop() && c.Err() == nil
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if inTime && len(rs.spare) < spareContexts {
		rs.spare = append(rs.spare, c.timedContext)
	} else {
		c.cancel(context.Canceled)
	}
}

// An Info names the destination that a request to a webhook is for, and the
// source of the call that it delivers. Trace is that of the request that brought the call,
// or nil.
type Info struct {
	Destination, Source string
	Trace               *tracecontext.Context
}

// deliveryKey is the key of a *Info in the context of a request.
type deliveryKey struct{}

// FromContext returns what the context of a request to a webhook says about it, for an
// http.RoundTripper set by engine.Config.WrapTransport. It is not ok for other contexts.
func FromContext(ctx context.Context) (info Info, ok bool) {
	if found, ok := ctx.Value(deliveryKey{}).(*Info); ok {
		return *found, true
	}
	return info, false
}
