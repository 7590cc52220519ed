package analytics

import (
	"context"
	"fmt"

	client "github.com/seed-45eadc4a/analytics-go"
	"github.com/seed-45eadc4a/analytics-go/internal/wire"
)

// Callback receives the outcome of messages. The client calls its methods on its own
// goroutines, possibly concurrently and in any order. The methods may enqueue messages, but
// must not close the client, because Close waits for them. The client logs a panic in them.
//
// The argument is a value, such as a Track and never a *Track. Its Type, MessageId and
// Timestamp are set.
type Callback interface {
	// Success is called for each delivered message.
	Success(Message)

	// Failure is called for each lost message. The error is a *DropError of the root
	// package, unless the message was never queued; see the package documentation.
	Failure(Message, error)
}

// maxFailing is the maximum number of pending Failure calls for messages that were not
// queued. If more are pending, the client does not call Failure, and only Enqueue returns the
// error.
const maxFailing = 1000

// callbacks calls the methods of a Callback.
type callbacks struct {
	Callback
	errorf  func(format string, args ...interface{})
	failing chan struct{} // contains one token for each pending call of fail; capacity maxFailing
}

func newCallbacks(c Callback, errorf func(string, ...interface{})) *callbacks {
	return &callbacks{Callback: c, errorf: errorf, failing: make(chan struct{}, maxFailing)}
}

// messageKey is the context key for the message of a call.
type messageKey struct{}

// messageOf is the root package's Config.Value. It returns the message of a call.
func messageOf(ctx context.Context) interface{} { return ctx.Value(messageKey{}) }

// result reports the outcome of a queued message.
func (c *callbacks) result(r client.Result) {
	if m := r.Value.(Message); r.Err == nil {
		c.Success(m)
	} else {
		c.Failure(m, r.Err)
	}
}

// fail reports a message that was not queued. It calls the callback on a new goroutine,
// because the caller of Enqueue may hold a lock that the callback needs.
func (c *callbacks) fail(m Message, err error) {
	select {
	case c.failing <- struct{}{}:
	default:
		return
	}
	go func() {
		defer func() {
			if p := recover(); p != nil {
				c.errorf("the callback panicked: %s", wire.Clip(fmt.Sprint(p), wire.MaxRepeated))
			}
			<-c.failing
		}()
		c.Failure(m, err)
	}()
}

// wait waits until all calls of fail have returned or done is closed. It must be called once.
func (c *callbacks) wait(done <-chan struct{}) {
	for range maxFailing {
		select {
		case c.failing <- struct{}{}:
		case <-done:
			return
		}
	}
}
