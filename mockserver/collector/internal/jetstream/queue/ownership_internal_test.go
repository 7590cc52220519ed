package queue

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// After a stall or a suspend, other goroutines may run before timers that are due.
func TestAHoldIsOverBeforeItsTimerSaysSo(t *testing.T) {
	for name, test := range map[string]struct {
		left time.Duration
		over bool
	}{
		"in time": {left: time.Minute},
		"late":    {left: -time.Nanosecond, over: true},
	} {
		t.Run(name, func(t *testing.T) {
			h := &ownership{}
			h.ctx, h.cancel = context.WithCancelCause(t.Context())
			until := time.Now().Add(test.left)
			h.expires.Store(&until)
			owned := ownedContext{h.ctx, h}
			assert.Equal(t, test.over, owned.Err() != nil)
			assert.Equal(t, test.over, h.ctx.Err() != nil, "the others are read")
		})
	}
	now := time.Now()
	assert.False(t, isOver(now, now.Add(time.Second)))
	assert.True(t, isOver(now, now))
	assert.True(t, isOver(now.Round(0).Add(2*time.Second), now.Add(time.Second)), "the other clock stood still")
}
