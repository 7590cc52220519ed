package analytics

import (
	"errors"
	"reflect"
	"runtime"
)

// The client runs code of its caller: the MarshalJSON of a value, the transport, the
// callback, the writer of the log. That may use the client in turn, and must not wait for
// what waits for it to return. Where that could be, the methods look at the stack
// before they wait.

// The functions that the caller's code is run in, and that a method would wait for.
var (
	beginName    = nameOf((*Client).begin)   // encodes the batches' context
	callbackName = nameOf((*dispatcher).run) // runs the callback, and writes to the log
	sendName     = nameOf((*sender).send)    // runs the transport
)

// errStarting is what a call returns that would wait for itself to begin.
var errStarting = errors.New("analytics: a MarshalJSON in the batches' context uses the client that is encoding it, which cannot send anything yet")

// errStartExit is what a start came to whose goroutine was ended.
var errStartExit = errors.New("analytics: a MarshalJSON in the batches' context called runtime.Goexit")

// errSending is what Flush and Shutdown return to a transport, which they would wait
// for.
var errSending = errors.New("analytics: the HTTP transport cannot wait for the calls that it is sending")

func nameOf(function interface{}) string {
	return runtime.FuncForPC(reflect.ValueOf(function).Pointer()).Name()
}

// calledFrom reports whether the goroutine is in the function of that name. It
// cannot tell for which client, so what is done about it must do for any.
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
