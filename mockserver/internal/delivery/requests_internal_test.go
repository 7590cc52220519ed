package delivery

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
)

func TestContextOfRequest(t *testing.T) {
	rs := requests{parent: newScope(t.Context())}
	_, ok := FromContext(rs.parent)
	assert.False(t, ok, "another context")
	ctx := rs.context(Info{Destination: "d", Source: "s"})
	info, ok := FromContext(ctx)
	assert.True(t, ok)
	assert.Equal(t, Info{Destination: "d", Source: "s"}, info)
	rs.parent.end()
	assert.ErrorIs(t, ctx.Err(), context.Canceled)
}

func TestRequestsEndWithOwnership(t *testing.T) {
	owned, release := context.WithCancel(t.Context())
	rs := requests{parent: newScope(t.Context()), owned: owned}
	assert.NoError(t, rs.context(Info{}).Err())
	release()
	assert.ErrorIs(t, rs.context(Info{}).Err(), context.Canceled)
}

func TestTrailingRequestsAreBounded(t *testing.T) {
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
