package pipeline

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The clock of calls shows the same time as time.Now, regardless of when it was last used.
func TestClockOfCalls(t *testing.T) {
	var c clock
	before := time.Now()
	milli := c.milli()
	require.GreaterOrEqual(t, milli, before.UnixMilli())
	require.False(t, c.now().Before(before))
	require.False(t, c.now().After(time.Now()))
	for range 2 { // the second round starts at a different time
		synctest.Test(t, func(t *testing.T) {
			for _, pause := range []time.Duration{0, clockAge / 2, clockAge - 1, 1, clockAge, time.Hour} {
				time.Sleep(pause)
				require.Equal(t, time.Now().UnixMilli(), c.milli())
				require.Equal(t, time.Now(), c.now())
			}
		})
	}
}
