package queue

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestOwnershipEndsBeforeTimerFires covers a stalled or suspended process: other goroutines may
// run before timers that are due.
func TestOwnershipEndsBeforeTimerFires(t *testing.T) {
	for name, test := range map[string]struct {
		left time.Duration
		over bool
	}{
		"in time": {left: time.Minute},
		"late":    {left: -time.Nanosecond, over: true},
	} {
		t.Run(name, func(t *testing.T) {
			o := &ownership{}
			o.ctx, o.cancel = context.WithCancelCause(t.Context())
			until := time.Now().Add(test.left)
			o.expires.Store(&until)
			owned := ownedContext{o.ctx, o}
			assert.Equal(t, test.over, owned.Err() != nil)
			assert.Equal(t, test.over, o.ctx.Err() != nil, "ends the ownership")
		})
	}
	now := time.Now()
	assert.False(t, isOver(now, now.Add(time.Second)))
	assert.True(t, isOver(now, now))
	assert.True(t, isOver(now.Round(0).Add(2*time.Second), now.Add(time.Second)), "the monotonic clock stopped")
}
