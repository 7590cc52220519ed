package delivery

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// Calls that begin as soon as they may keep to the rate, in the long run exactly and in any
// second but for what is caught up.
func TestLimiterKeepsToItsRate(t *testing.T) {
	for _, perSecond := range []float64{0.1, 0.5, 1, 3, 50, 150, 333, 1000, 7500, 100_000} {
		var l limiter
		l.setRate(perSecond)
		start := time.Now()
		now := start
		begun := 0
		const seconds = 20
		for now.Sub(start) < seconds*time.Second {
			at := l.next(now)
			if at.IsZero() {
				l.begin(now)
				begun++
				continue
			}
			assert.True(t, at.After(now))
			now = at
		}
		assert.InDelta(t, perSecond*seconds, begun, 1.001+perSecond*catchUp.Seconds()+perSecond*wakeStep.Seconds(), "%v a second", perSecond)
	}
}

func TestLimiterHoldsUntilTheLatestTime(t *testing.T) {
	var l limiter
	now := time.Now()
	assert.False(t, l.isActive())
	l.hold(now.Add(time.Minute))
	l.hold(now.Add(time.Second))
	assert.Equal(t, now.Add(time.Minute), l.next(now.Add(time.Second)))
	assert.True(t, l.isActive())
	later := now.Add(time.Minute)
	assert.True(t, l.next(later).IsZero())
	l.begin(later)
	assert.False(t, l.isActive(), "a hold that is over costs nothing")
	l.hold(later.Add(time.Minute))
	l.release()
	assert.True(t, l.next(later).IsZero())
}

// After a rest no more are due at once than are caught up.
func TestLimiterSavesNoCallsUp(t *testing.T) {
	var l limiter
	l.setRate(1000)
	now := time.Now().Add(time.Hour)
	burst := 0
	for ; l.next(now).IsZero(); burst++ {
		l.begin(now)
	}
	assert.Equal(t, int(catchUp/time.Millisecond)+1, burst)
	l.setRate(0)
	assert.True(t, l.next(now).IsZero())
}
