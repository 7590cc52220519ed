package delivery

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestRequestContextIsReused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rs := requests{parent: newScope(t.Context()), timeout: time.Second}
		first := rs.begin(Info{})
		time.Sleep(900 * time.Millisecond)
		rs.end(first)
		time.Sleep(time.Hour) // its time does not pass while it waits
		again := rs.begin(Info{})
		assert.Same(t, first.timedContext, again.timedContext)
		deadline, ok := again.Deadline()
		assert.True(t, ok)
		assert.Equal(t, time.Second, time.Until(deadline))
		time.Sleep(time.Second - 1)
		assert.NoError(t, again.Err(), "before its time")
		<-again.Done()
		assert.Equal(t, deadline, time.Now())
		assert.Equal(t, context.DeadlineExceeded, again.Err())
		rs.end(again)
		next := rs.begin(Info{})
		assert.NotSame(t, again.timedContext, next.timedContext, "one that has ended")
		assert.NoError(t, next.Err())
	})
}

func TestRequestContextEndsWithParent(t *testing.T) {
	type key struct{}
	parent, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, 1))
	rs := requests{parent: newScope(parent), timeout: time.Hour}
	spare, begun := rs.begin(Info{}), rs.begin(Info{})
	assert.Equal(t, 1, begun.Value(key{}))
	_, ok := FromContext(parent)
	assert.False(t, ok, "a context of something else")
	rs.end(spare)
	cancel(errors.New("enough"))
	<-begun.Done()
	assert.Equal(t, context.Canceled, begun.Err())
	assert.Error(t, spare.Err(), "nothing is left behind")
	rs.end(begun)
	for range 2 { // the spare one, and a new one
		late := rs.begin(Info{})
		assert.Equal(t, context.Canceled, late.Err(), "one that begins after its parent's end")
		rs.end(late)
	}
}

func TestSpareContextsAreBounded(t *testing.T) {
	rs := requests{parent: newScope(t.Context()), timeout: time.Hour}
	var all []*requestContext
	for range 2 * spareContexts {
		all = append(all, rs.begin(Info{}))
	}
	for _, out := range all {
		rs.end(out)
	}
	assert.Len(t, rs.spare, spareContexts)
	for i, out := range all {
		assert.Equal(t, i >= spareContexts, out.Err() != nil, "the others end")
	}
}

func TestRequestContextsConcurrentSafe(t *testing.T) {
	parent, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, after := range []time.Duration{time.Hour, time.Nanosecond} {
		rs := requests{parent: newScope(parent), timeout: after}
		var users sync.WaitGroup
		for range 16 {
			users.Go(func() {
				for range 500 {
					out := rs.begin(Info{})
					if after == time.Hour {
						assert.NoError(t, out.Err())
					} else {
						<-out.Done()
						assert.Equal(t, context.DeadlineExceeded, out.Err())
					}
					rs.end(out)
				}
			})
		}
		users.Wait()
	}
}

func TestTrailingRequestsTakeRoomUntilTheyEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rs requests
		many, few := make(chan answer), make(chan answer)
		assert.True(t, rs.leave(many, maxTrailing-2))
		assert.False(t, rs.leave(few, 3), "one too many")
		assert.True(t, rs.leave(few, 2))
		many <- answer{}
		synctest.Wait()
		assert.EqualValues(t, maxTrailing-1, rs.trailing.Load())
		close(many)
		close(few)
		rs.concurrent.Wait()
		assert.Zero(t, rs.trailing.Load())
	})
}
