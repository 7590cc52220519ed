package queue

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// A process that has stood still, or a machine that was suspended, may run other goroutines
// before the timers that are due.
func TestAHoldIsOverBeforeItsTimerSaysSo(t *testing.T) {
	for name, test := range map[string]struct {
		left time.Duration
		over bool
	}{
		"in time": {left: time.Minute},
		"late":    {left: -time.Nanosecond, over: true},
	} {
		t.Run(name, func(t *testing.T) {
			h := &hold{}
			h.ctx, h.cancel = context.WithCancelCause(t.Context())
			until := time.Now().Add(test.left)
			h.until.Store(&until)
			held := heldContext{h.ctx, h}
			assert.Equal(t, test.over, held.Err() != nil)
			assert.Equal(t, test.over, h.ctx.Err() != nil, "the others are told")
		})
	}
	now := time.Now()
	assert.False(t, isOver(now, now.Add(time.Second)))
	assert.True(t, isOver(now, now))
	assert.True(t, isOver(now.Round(0).Add(2*time.Second), now.Add(time.Second)), "the other clock stood still")
}
