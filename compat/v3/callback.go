package analytics

import (
	"context"
	"fmt"

	client "github.com/seed-45eadc4a/analytics-go"
	"github.com/seed-45eadc4a/analytics-go/internal/wire"
)

// Callback is told the end of messages. Its methods are called on goroutines of the
// client, perhaps at the same time and in any order. They may enqueue messages, but must
// not close the client, which waits for them. A panic in them is logged.
//
// What they get is a value, such as a Track and never a *Track, with its Type, MessageId
// and Timestamp.
type Callback interface {
	// Success is called for each message that the collector has taken.
	Success(Message)

	// Failure is called for each message that was lost. The error is a *DropError of the
	// root package, which says why, unless the message was never queued: see the package's
	// documentation.
	Failure(Message, error)
}

// maxFailing is how many messages that were not queued wait for the callback. More are
// told of by the error of Enqueue alone.
const maxFailing = 1000

// callbacks passes the ends of messages on.
type callbacks struct {
	Callback
	errorf  func(format string, args ...interface{})
	failing chan struct{} // capacity maxFailing; holds a token for each call of fail that has not ended; never closed
}

func newCallbacks(c Callback, errorf func(string, ...interface{})) *callbacks {
	return &callbacks{Callback: c, errorf: errorf, failing: make(chan struct{}, maxFailing)}
}

// messageKey is the key under which the context of a call has its message.
type messageKey struct{}

// messageOf returns what the client keeps beside a call: its message.
func messageOf(ctx context.Context) interface{} { return ctx.Value(messageKey{}) }

// result passes on the end of a message that was queued.
func (c *callbacks) result(r client.Result) {
	if m := r.Value.(Message); r.Err == nil {
		c.Success(m)
	} else {
		c.Failure(m, r.Err)
	}
}

// fail passes on the end of a message that was not queued. The caller of Enqueue may hold
// what the callback waits for, so that it is called on a goroutine of its own.
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

// wait waits until no call of fail is left, or until done is closed. It is called once.
func (c *callbacks) wait(done <-chan struct{}) {
	for range maxFailing {
		select {
		case c.failing <- struct{}{}:
		case <-done:
			return
		}
	}
}
