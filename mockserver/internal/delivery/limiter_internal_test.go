package delivery

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestLimiter(t *testing.T) {
	for name, test := range map[string]struct {
		calls, requests int // under way, of 4 and 10
		makes           int // requests of the next call
		room, fits      bool
	}{
		"nothing is under way":                {makes: 1, room: true, fits: true},
		"a call larger than the limit, alone": {makes: 11, room: true, fits: true},
		"there is room for the last call":     {calls: 3, requests: 3, makes: 1, room: true, fits: true},
		"as many calls as may be":             {calls: 4, requests: 4, makes: 1},
		"its requests just fit":               {calls: 2, requests: 8, makes: 2, room: true, fits: true},
		"its requests do not fit":             {calls: 2, requests: 9, makes: 2, room: true},
		"requests that calls left behind":     {requests: 10, makes: 1, room: true},
		"a call larger than the limit":        {requests: 1, makes: 11, room: true},
	} {
		t.Run(name, func(t *testing.T) {
			l := limiter{maxCalls: 4, maxRequests: 10, calls: test.calls, requests: test.requests}
			assert.Equal(t, test.room, l.hasRoom())
			assert.Equal(t, test.fits, l.fits(test.makes))
		})
	}
}

// TestLimiterTrailingRequests: the requests that a call leaves behind take room until
// they have ended.
func TestLimiterTrailingRequests(t *testing.T) {
	l := limiter{maxCalls: 2, maxRequests: 5}
	l.begin(3)
	assert.False(t, l.fits(3))
	l.add(-1) // one webhook takes the call
	l.end(0)
	assert.True(t, l.fits(3), "two requests are left")
	assert.False(t, l.fits(4))
	l.add(-2)
	assert.True(t, l.fits(5))
	l.begin(1)
	l.end(1)
	assert.Equal(t, limiter{maxCalls: 2, maxRequests: 5}, l)
}
