package webhook

import (
	"context"
	"reflect"
	"sync"
	"time"
)

// maxSpareTimeouts bounds the timeouts that wait to be used again.
const maxSpareTimeouts = 512

// timeouts hand out contexts that end with another one, or after a time. Those that
// did not end are used again: to tie one to its parent and to a timer takes longer
// than much of a delivery.
type timeouts struct {
	mu     sync.Mutex // guards what follows
	spare  []*timeout
	closed bool
}

// A timeout is a context that ends with its parent, or when its time is over.
type timeout struct {
	context.Context
	parent context.Context // nil where it cannot be compared with another
	cancel context.CancelCauseFunc
	timer  *time.Timer
}

// begin returns a context that ends with parent, or after d. It is given back with
// end.
func (ts *timeouts) begin(parent context.Context, d time.Duration) *timeout {
	if t := ts.take(); t != nil {
		if t.parent != nil && t.parent == parent {
			t.timer.Reset(d)
			return t
		}
		t.cancel(context.Canceled)
	}
	t := &timeout{}
	if reflect.ValueOf(parent).Comparable() {
		t.parent = parent
	}
	t.Context, t.cancel = context.WithCancelCause(parent)
	t.timer = time.AfterFunc(d, func() { t.cancel(context.DeadlineExceeded) })
	return t
}

// Err implements context.Context.
func (t *timeout) Err() error {
	err := t.Context.Err()
	if err != nil && context.Cause(t.Context) == context.DeadlineExceeded {
		return context.DeadlineExceeded
	}
	return err
}

func (ts *timeouts) take() (t *timeout) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if n := len(ts.spare); n > 0 {
		ts.spare, t = ts.spare[:n-1], ts.spare[n-1]
	}
	return t
}

// end takes back a context. What still uses it may see it end later.
func (ts *timeouts) end(t *timeout) {
	inTime := t.timer.Stop() && t.Err() == nil
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if inTime && !ts.closed && len(ts.spare) < maxSpareTimeouts {
		ts.spare = append(ts.spare, t)
	} else {
		t.cancel(context.Canceled)
	}
}

// close ends the contexts that wait to be used again, and each other one when it is
// given back.
func (ts *timeouts) close() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.closed = true
	for _, t := range ts.spare {
		t.cancel(context.Canceled)
	}
	ts.spare = nil
}
