package mockserver

import (
	"context"
	"sync"
	"time"
)

// spareTimeouts bounds the timeouts of a destination that wait to be used again.
const spareTimeouts = DefaultConcurrency

// timeouts hand out contexts for the requests to a destination, each of which ends
// with the parent, or after a time. Those that did not end are used again: to tie
// one to its parent and to a timer is a tenth of a delivery's work beside the network.
type timeouts struct {
	parent context.Context
	after  time.Duration

	mu    sync.Mutex // guards spare
	spare []*reusable
}

// A reusable is what is used again of a timeout.
type reusable struct {
	context.Context // ends with the parent, or with the timer
	cancel          context.CancelCauseFunc
	timer           *time.Timer
}

// A timeout is a context for one request.
type timeout struct {
	*reusable
	deadline time.Time
}

// Deadline implements context.Context.
func (t *timeout) Deadline() (time.Time, bool) { return t.deadline, true }

// Err implements context.Context.
func (t *timeout) Err() error {
	err := t.Context.Err()
	if err != nil && context.Cause(t.Context) == context.DeadlineExceeded {
		return context.DeadlineExceeded
	}
	return err
}

// begin returns a context, which is given back with end.
func (ts *timeouts) begin() *timeout {
	t := &timeout{deadline: time.Now().Add(ts.after), reusable: ts.take()}
	if t.reusable != nil {
		t.timer.Reset(ts.after)
		return t
	}
	ctx, cancel := context.WithCancelCause(ts.parent)
	timer := time.AfterFunc(ts.after, func() { cancel(context.DeadlineExceeded) })
	t.reusable = &reusable{ctx, cancel, timer}
	return t
}

func (ts *timeouts) take() (r *reusable) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if n := len(ts.spare); n > 0 {
		ts.spare, r = ts.spare[:n-1], ts.spare[n-1]
	}
	return r
}

// end takes back a context, which nobody may wait for any more: it may never end.
func (ts *timeouts) end(t *timeout) {
	inTime := t.timer.Stop() && t.Err() == nil
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if inTime && len(ts.spare) < spareTimeouts {
		ts.spare = append(ts.spare, t.reusable)
	} else {
		t.cancel(context.Canceled)
	}
}
