package delivery

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// maxTrailing is the maximum number of trailing requests of a destination: requests that
// continue after another webhook has accepted the call.
const maxTrailing = 1024

// requests contains the requests in flight to one destination.
type requests struct {
	parent scope           // canceling it cancels all requests
	owned  context.Context // canceled when another process may deliver; may be nil

	concurrent sync.WaitGroup // requests of calls that have several webhooks
	trailing   atomic.Int64   // number of trailing requests
}

// A scope is a context with its cancel function.
type scope struct {
	context.Context
	end context.CancelFunc
}

func newScope(parent context.Context) scope {
	ctx, cancel := context.WithCancel(parent)
	return scope{ctx, cancel}
}

// leave reports whether the remaining requests of a call may continue as trailing requests. If
// so, it counts them until they end.
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

// An answer is the result of the request to one webhook.
type answer struct {
	from webhook.Endpoint
	webhook.Attempt
	superseded string // the reason why the call was not sent, or empty
}

// context returns the context of a request.
func (rs *requests) context(of Info) context.Context {
	if rs.owned != nil && rs.owned.Err() != nil {
		rs.parent.end() // context.AfterFunc may run late if the process was suspended
	}
	return context.WithValue(rs.parent, deliveryKey{}, of)
}

// An Info describes a request to a webhook: the destination, and the source of the call. Trace
// is the trace context of the request that contained the call, or nil.
type Info struct {
	Destination, Source string
	Trace               *event.Trace
}

// deliveryKey is the context key of Info.
type deliveryKey struct{}

// FromContext returns the Info in the context of a request to a webhook. An http.RoundTripper that
// engine.Config.WrapTransport adds can call it. ok is false for other contexts.
func FromContext(ctx context.Context) (info Info, ok bool) {
	info, ok = ctx.Value(deliveryKey{}).(Info)
	return info, ok
}
