package mockserver

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestTimeoutUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := timeouts{parent: t.Context(), after: time.Second}
		first := ts.begin()
		time.Sleep(900 * time.Millisecond)
		ts.end(first)
		time.Sleep(time.Hour) // its time does not pass while it waits
		again := ts.begin()
		assert.Same(t, first.reusable, again.reusable)
		deadline, ok := again.Deadline()
		assert.True(t, ok)
		assert.Equal(t, time.Second, time.Until(deadline))
		time.Sleep(time.Second - 1)
		assert.NoError(t, again.Err(), "before its time")
		<-again.Done()
		assert.Equal(t, deadline, time.Now())
		assert.Equal(t, context.DeadlineExceeded, again.Err())
		ts.end(again)
		next := ts.begin()
		assert.NotSame(t, again.reusable, next.reusable, "one that has ended")
		assert.NoError(t, next.Err())
	})
}

func TestTimeoutEndsWithItsParent(t *testing.T) {
	type key struct{}
	parent, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, 1))
	ts := timeouts{parent: parent, after: time.Hour}
	spare, begun := ts.begin(), ts.begin()
	assert.Equal(t, 1, begun.Value(key{}))
	ts.end(spare)
	cancel(errors.New("enough"))
	<-begun.Done()
	assert.Equal(t, context.Canceled, begun.Err())
	assert.Error(t, spare.Err(), "nothing is left behind")
	ts.end(begun)
	for range 2 { // the spare one, and a new one
		late := ts.begin()
		assert.Equal(t, context.Canceled, late.Err(), "one that begins after its parent's end")
		ts.end(late)
	}
}

func TestSpareTimeoutsAreBounded(t *testing.T) {
	ts := timeouts{parent: t.Context(), after: time.Hour}
	var all []*timeout
	for range 2 * spareTimeouts {
		all = append(all, ts.begin())
	}
	for _, out := range all {
		ts.end(out)
	}
	assert.Len(t, ts.spare, spareTimeouts)
	for i, out := range all {
		assert.Equal(t, i >= spareTimeouts, out.Err() != nil, "the others end")
	}
}

func TestTimeoutsConcurrentSafe(t *testing.T) {
	parent, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, after := range []time.Duration{time.Hour, time.Nanosecond} {
		ts := timeouts{parent: parent, after: after}
		var users sync.WaitGroup
		for range 16 {
			users.Go(func() {
				for range 500 {
					out := ts.begin()
					if after == time.Hour {
						assert.NoError(t, out.Err())
					} else {
						<-out.Done()
						assert.Equal(t, context.DeadlineExceeded, out.Err())
					}
					ts.end(out)
				}
			})
		}
		users.Wait()
	}
}
