package delivery

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/tracecontext"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// maxTrailing is how many requests of one destination may be under way beside those of its
// calls under way: where another webhook has taken the call they go on until they are
// answered, or time out.
const maxTrailing = 1024

// requests are those of one destination that are under way.
type requests struct {
	parent scope           // all of them end with it
	held   context.Context // ends when another process may deliver; nil where none does

	concurrent sync.WaitGroup // requests to one of several webhooks
	trailing   atomic.Int64   // those of them whose calls have ended
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

// context returns the context of a request for a call.
func (rs *requests) context(of Info) context.Context {
	if rs.held != nil && rs.held.Err() != nil {
		rs.parent.end() // it may not have been told yet, after it stood still
	}
	return context.WithValue(rs.parent, deliveryKey{}, of)
}

// An Info names the destination that a request to a webhook is for, and the
// source of the call that it delivers. Trace is that of the request that brought the call,
// or nil.
type Info struct {
	Destination, Source string
	Trace               *tracecontext.Context
}

// deliveryKey is the key of the Info in the context of a request.
type deliveryKey struct{}

// FromContext returns what the context of a request to a webhook says about it, for an
// http.RoundTripper set by engine.Config.WrapTransport. It is not ok for other contexts.
func FromContext(ctx context.Context) (info Info, ok bool) {
	info, ok = ctx.Value(deliveryKey{}).(Info)
	return info, ok
}
