package analytics

import (
	"errors"
	"reflect"
	"runtime"
)

// The client calls its caller's code: the MarshalJSON of a value, the transport, the
// callback, the writer of the log. That code may use the client, which must not wait
// for its own caller to return. Where this can happen, a method searches the stack
// before it waits: the interfaces of this code carry no context by which it could be
// recognized otherwise.

// The functions that call the caller's code, and that a method may wait for.
var (
	beginName    = nameOf((*Client).begin)   // encodes the batches' context
	callbackName = nameOf((*dispatcher).run) // runs the callback, and writes to the log
	sendName     = nameOf((*pipeline).send)  // runs the transport
)

// errStarting is returned to a MarshalJSON that would wait for the start it is part of.
var errStarting = errors.New("analytics: a MarshalJSON in the batches' context uses the client that is encoding it, which cannot send anything yet")

// errStartExit is the error of a start whose goroutine ended.
var errStartExit = errors.New("analytics: a MarshalJSON in the batches' context called runtime.Goexit")

// errSending is returned by Flush and Shutdown to a transport that they would wait for.
var errSending = errors.New("analytics: the HTTP transport cannot wait for the calls that it is sending")

func nameOf(function interface{}) string {
	return runtime.FuncForPC(reflect.ValueOf(function).Pointer()).Name()
}

// calledFrom reports whether a function of that name is on the goroutine's stack, for
// this client or for another.
func calledFrom(function string) bool {
	stack := make([]uintptr, 64)
	n := runtime.Callers(2, stack)
	for n == len(stack) {
		stack = make([]uintptr, 2*len(stack))
		n = runtime.Callers(2, stack)
	}
	frames := runtime.CallersFrames(stack[:n])
	for more := n > 0; more; {
		var f runtime.Frame
		if f, more = frames.Next(); f.Function == function {
			return true
		}
	}
	return false
}
