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
			passed := make([]int, 12)
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
			assert.Empty(t, g.lines)
			assert.False(t, g.probing)
			_, atRest := g.activity.rest(time.Now())
			assert.True(t, atRest)
			for _, n := range passed {
				assert.Positive(t, n, "none waits in vain")
			}
		})
	}
}

// tryGate brings an entry of some calls before the gate, and returns how many ran.
func tryGate(t *testing.T, g *gate, random *rand.Rand) (ran int) {
	patience := time.Hour
	if random.IntN(8) == 0 {
		patience = time.Duration(random.IntN(3000)) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	calls := make([]tryCall, 1+random.IntN(6))
	var turns []*turn
	for i := range calls {
		c := &calls[i]
		*c = tryCall{t: t, gate: g, random: rand.New(rand.NewPCG(random.Uint64(), 0)), turn: turn{needs: 1 + random.IntN(5)}}
		c.turn.call = c
		turns = append(turns, &c.turn)
	}
	deadline := time.Now().Add(time.Duration(random.IntN(60_000)) * time.Millisecond)
	left, late := g.bring(ctx, turns, deadline)
	if late {
		assert.False(t, time.Now().Before(deadline))
	}
	isLeft := map[*turn]bool{}
	for _, l := range left {
		isLeft[l] = true
	}
	for i := range calls {
		c := &calls[i]
		assert.Zero(t, c.running, "all have ended")
		assert.Equal(t, isLeft[&c.turn], !c.ended, "a call runs to its end, or is left")
		if c.ended {
			ran++
		}
	}
	return ran
}

// A tryCall does what calls do behind the gate, at random.
type tryCall struct {
	t      *testing.T
	gate   *gate
	random *rand.Rand
	turn   turn

	running int
	ended   bool
}

func (c *tryCall) run() tidings {
	assert.False(c.t, c.ended, "a call that has ended does not run again")
	c.running++
	defer func() { c.running-- }()
	g := c.gate
	g.mu.Lock()
	assert.LessOrEqual(c.t, g.calls, g.maxCalls)
	assert.LessOrEqual(c.t, g.requests, g.maxRequests)
	g.mu.Unlock()
	if c.random.IntN(10) == 0 { // its settings have changed
		c.turn.needs = 1 + c.random.IntN(5)
		return notYet
	}
	c.ended = true
	if c.random.IntN(10) == 0 {
		return nothing // it makes no request
	}
	if requests := c.turn.holds; requests > 1 {
		g.split(&c.turn)
		for range requests - 1 {
			d := time.Duration(c.random.IntN(2000)) * time.Millisecond
			go func() {
				time.Sleep(d)
				g.requestEnded()
				g.end()
			}()
		}
		defer g.requestEnded()
	}
	time.Sleep(time.Duration(c.random.IntN(100)) * time.Millisecond)
	return []tidings{itAnswers, itFails, itFails, itFails, nothing}[c.random.IntN(5)]
}
