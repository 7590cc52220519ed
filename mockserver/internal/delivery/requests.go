package delivery

import (
	"context"
	"sync"
	"time"
)

// spareContexts bounds the request contexts of a destination that wait to be reused.
const spareContexts = 64

// requestContexts makes the contexts of the requests to one destination. Each ends with
// the parent or after a time, and names its delivery. What did not end is reused: to
// tie a context to its parent and to a timer takes a twentieth of a delivery's work.
type requestContexts struct {
	parent  context.Context
	timeout time.Duration

	mu    sync.Mutex // guards spare
	spare []*timedContext
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
func (cs *requestContexts) begin(of Info) *requestContext {
	c := &requestContext{deadline: time.Now().Add(cs.timeout), delivery: of, timedContext: cs.take()}
	if c.timedContext != nil {
		c.timer.Reset(cs.timeout)
		return c
	}
	ctx, cancel := context.WithCancelCause(cs.parent)
	timer := time.AfterFunc(cs.timeout, func() { cancel(context.DeadlineExceeded) })
	c.timedContext = &timedContext{ctx, cancel, timer}
	return c
}

func (cs *requestContexts) take() (c *timedContext) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if n := len(cs.spare); n > 0 {
		cs.spare, c = cs.spare[:n-1], cs.spare[n-1]
	}
	return c
}

// end takes back a context. Nobody may wait for its end any more: it may never come.
func (cs *requestContexts) end(c *requestContext) {
	inTime := c.timer.Stop() && c.Err() == nil
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if inTime && len(cs.spare) < spareContexts {
		cs.spare = append(cs.spare, c.timedContext)
	} else {
		c.cancel(context.Canceled)
	}
}

// An Info names the destination that a request to a webhook is for, and the
// source of the call that it delivers.
type Info struct{ Destination, Source string }

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
