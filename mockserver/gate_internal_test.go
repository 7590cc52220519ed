package mockserver

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestGateConcurrentSafe sends calls through a gate in all ways at once: they
// pass, fail, give up, make no request, or leave requests behind.
func TestGateConcurrentSafe(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			const maxCalls, maxRequests = 3, 8
			g := newGate(systemClock{}, maxCalls, maxRequests, func() {})
			var wg sync.WaitGroup
			passed := make([]int, 40)
			for i := range passed {
				random := rand.New(rand.NewPCG(seed, uint64(i)))
				wg.Go(func() {
					g.beginEntry()
					defer g.endEntry()
					for range 30 {
						passed[i] += tryGate(t, g, random)
					}
				})
			}
			wg.Wait()
			time.Sleep(time.Minute) // the requests that were left behind
			synctest.Wait()
			g.mu.Lock()
			defer g.mu.Unlock()
			assert.Zero(t, g.calls)
			assert.Zero(t, g.requests)
			assert.Zero(t, g.active)
			assert.Zero(t, g.entries)
			assert.Empty(t, g.waiting)
			assert.False(t, g.probing)
			_, atRest := g.activity.rest(time.Now())
			assert.True(t, atRest)
			for _, n := range passed {
				assert.Positive(t, n, "none waits in vain")
			}
		})
	}
}

// tryGate lets one call try to pass, and returns 1 if it did.
func tryGate(t *testing.T, g *gate, random *rand.Rand) int {
	patience := time.Hour
	if random.IntN(8) == 0 {
		patience = time.Duration(random.IntN(3000)) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	requests := 1 + random.IntN(5)
	p, ok := g.enter(ctx, requests, time.Now().Add(time.Duration(random.IntN(60_000))*time.Millisecond))
	if !ok {
		return 0
	}
	g.mu.Lock()
	assert.LessOrEqual(t, g.calls, g.maxCalls)
	assert.LessOrEqual(t, g.requests, g.maxRequests)
	g.mu.Unlock()
	if random.IntN(10) == 0 {
		g.giveBack(p)
		g.end()
		return 1
	}
	for range requests - 1 {
		d := time.Duration(random.IntN(2000)) * time.Millisecond
		go func() {
			time.Sleep(d)
			g.requestEnded()
			g.end()
		}()
	}
	time.Sleep(time.Duration(random.IntN(100)) * time.Millisecond)
	g.requestEnded()
	g.leave(p, []tidings{itAnswers, itFails, itFails, itFails, nothing}[random.IntN(5)])
	g.end()
	return 1
}
