package delivery

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
)

// TestGateConcurrentSafe runs concurrent calls with random outcomes, timeouts and cancellations.
func TestGateConcurrentSafe(t *testing.T) {
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			g := newGate(3, func(breakerState, string) {})
			var wg sync.WaitGroup
			passed := make([]int, 12)
			for i := range passed {
				random := rand.New(rand.NewPCG(seed, uint64(i)))
				wg.Go(func() {
					for range 30 {
						passed[i] += tryGate(t, g, random)
					}
				})
			}
			wg.Wait()
			g.mu.Lock()
			defer g.mu.Unlock()
			assert.Zero(t, g.calls)
			assert.Zero(t, g.intake.entries)
			assert.Zero(t, g.intake.calls)
			assert.Zero(t, g.intake.arriving)
			assert.Empty(t, g.queue.lanes)
			assert.Nil(t, g.probe)
			ran := 0
			for _, n := range passed {
				ran += n
			}
			assert.Positive(t, ran)
		})
	}
}

// tryGate runs an entry with random calls and returns the number of calls that ran.
func tryGate(t *testing.T, g *gate, random *rand.Rand) (ran int) {
	patience := time.Hour
	if random.IntN(8) == 0 {
		patience = time.Duration(random.IntN(3000)) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	calls := make([]tryCall, 1+random.IntN(6))
	var tickets []*ticket
	for i := range calls {
		c := &calls[i]
		*c = tryCall{t: t, gate: g, random: rand.New(rand.NewPCG(random.Uint64(), 0))}
		c.ticket.call = c
		tickets = append(tickets, &c.ticket)
	}
	deadline := time.Now().Add(time.Duration(random.IntN(60_000)) * time.Millisecond)
	lane := someLane(random)
	g.beginEntry(lane, len(tickets))
	defer g.endEntry(lane, len(tickets))
	left, late := g.run(ctx, lane, tickets, deadline)
	if late {
		assert.False(t, time.Now().Before(deadline))
	}
	isLeft := map[*ticket]bool{}
	for _, e := range left {
		isLeft[e] = true
	}
	for i := range calls {
		c := &calls[i]
		assert.Zero(t, c.running, "all have ended")
		assert.Equal(t, isLeft[&c.ticket], !c.ended, "each call runs or is returned")
		if c.ended {
			ran++
		}
	}
	return ran
}

// someLane returns one of four lanes.
func someLane(random *rand.Rand) laneKey {
	return []laneKey{{source: "a"}, {source: "b"}, {source: "c"}, {retries: true}}[random.IntN(4)]
}

// A tryCall is a call with a random outcome.
type tryCall struct {
	t      *testing.T
	gate   *gate
	random *rand.Rand
	ticket ticket

	running int
	ended   bool
}

func (c *tryCall) run() (outcome, string) {
	assert.False(c.t, c.ended, "a call that has ended does not run again")
	c.running++
	defer func() { c.running-- }()
	g := c.gate
	g.mu.Lock()
	assert.LessOrEqual(c.t, g.calls, g.maxCalls)
	g.mu.Unlock()
	c.ended = true
	if c.random.IntN(10) == 0 {
		return outcomeUnknown, "" // no request was sent
	}
	time.Sleep(time.Duration(c.random.IntN(100)) * time.Millisecond)
	return []outcome{outcomeWorking, outcomeFailed, outcomeUnreachable, outcomeUnreachable, outcomeUnreachable, outcomeRetryFailed, outcomeUnknown}[c.random.IntN(7)], ""
}

// TestGateMatchesModel executes random operations one at a time, and compares the gate with a
// simple model.
func TestGateMatchesModel(t *testing.T) {
	states := map[breakerState]int{}
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 7))
			m := &gateModel{random: random, turns: map[laneKey]int{}, failed: map[laneKey]int{}, looked: true, usual: []outcome{outcomeFailed, outcomeUnreachable, outcomeWorking}[seed%3]}
			m.gate = newGate(1+random.IntN(8), func(breakerState, string) {})
			m.breaker.failed = []int{0, 50_000}[seed%2] // a failing destination admits few calls
			m.breaker.failedCalls = m.breaker.failed
			m.gate.breaker = m.breaker
			for range 300 {
				m.step()
				m.admit()
				synctest.Wait()
				states[m.breaker.state()]++
				if m.compare(t); t.Failed() {
					t.Fatal("seed ", seed)
				}
			}
			m.end(t)
		})
	}
	for _, s := range []breakerState{working, failing, unreachable} {
		assert.Greater(t, states[s], 500, "state %d was rarely reached", s)
	}
}

// A gateModel is a model of a gate. It uses a real breaker, which has its own tests.
type gateModel struct {
	gate    *gate
	random  *rand.Rand
	usual   outcome       // outcome of most calls
	entries []*modelEntry // entries; the first waiting entry of a lane is next
	breaker breaker
	probe   *modelCall
	turn    int
	turns   map[laneKey]int // last turn of each lane with an entry
	failed  map[laneKey]int // consecutive failures

	wanted *journal.Want // last result of want; nil for none
	looked bool          // more has been called since the last want
}

type modelEntry struct {
	lane     laneKey
	calls    []*modelCall
	ctx      context.Context
	cancel   context.CancelFunc
	deadline time.Time
	late     bool
	leased   int

	returned bool // the gate has returned the entry
	left     []*ticket
	wasLate  bool
}

type modelCall struct {
	ticket  ticket
	entry   *modelEntry
	state   string       // waits, runs, ended or left
	outcome chan outcome // sending to it ends the call

	begun bool // the gate has begun the call
}

func (c *modelCall) run() (outcome, string) {
	c.begun = true
	return <-c.outcome, ""
}

// in returns the entry's calls that are in a state.
func (e *modelEntry) in(state string) (calls []*modelCall) {
	for _, c := range e.calls {
		if c.state == state {
			calls = append(calls, c)
		}
	}
	return calls
}

func (m *gateModel) running() (calls []*modelCall) {
	for _, e := range m.entries {
		calls = append(calls, e.in("runs")...)
	}
	return calls
}

// step executes a random operation.
func (m *gateModel) step() {
	running := m.running()
	switch n := m.random.IntN(100); {
	case n < 15 && len(m.entries) < 12:
		m.bring()
	case n < 78 && len(running) > 0:
		m.endCall(running[m.random.IntN(len(running))])
	case n < 80 && len(m.entries) > 0:
		m.entries[m.random.IntN(len(m.entries))].cancel()
	case n < 95:
		m.sleep(time.Duration(m.random.IntN(1500)) * time.Millisecond)
	}
}

// sleep advances the clock, and updates the model at each timeout.
func (m *gateModel) sleep(d time.Duration) {
	for end := time.Now().Add(d); ; {
		at := end
		if next := m.breaker.next(time.Now()); !next.IsZero() && next.Before(at) {
			at = next
		}
		for _, e := range m.entries {
			if len(e.in("waits")) > 0 && e.deadline.Before(at) {
				at = e.deadline
			}
		}
		time.Sleep(time.Until(at))
		synctest.Wait()
		if !at.Before(end) {
			return
		}
		m.admit()
	}
}

// bring adds an entry.
func (m *gateModel) bring() {
	e := &modelEntry{lane: someLane(m.random), deadline: time.Now().Add(time.Duration(m.random.IntN(60_000)) * time.Millisecond)}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	var tickets []*ticket
	for range m.random.IntN(8) {
		c := &modelCall{entry: e, state: "waits", outcome: make(chan outcome)}
		c.ticket = ticket{call: c}
		e.calls, tickets = append(e.calls, c), append(tickets, &c.ticket)
	}
	m.entries = append(m.entries, e)
	if m.turns[e.lane] == 0 {
		m.turn++
		m.turns[e.lane] = m.turn
	}
	leased := len(tickets)
	if m.random.IntN(2) == 0 {
		leased += 200 // calls that need no admission
	}
	e.leased = leased
	m.looked = true // the worker calls want again after each lease
	m.gate.beginEntry(e.lane, leased)
	go func() {
		defer m.gate.endEntry(e.lane, leased)
		e.left, e.wasLate = m.gate.run(e.ctx, e.lane, tickets, e.deadline)
		e.returned = true
	}()
}

// endCall ends a call.
func (m *gateModel) endCall(c *modelCall) {
	o := m.usual
	switch m.random.IntN(40) {
	case 0:
		o = outcomeUnknown
	case 1:
		o = outcomeWorking
	case 2:
		o = outcomeFailed
	case 3:
		o = outcomeUnreachable
	case 4:
		o = outcomeRetryFailed
	}
	c.state = "ended"
	c.ticket.shared = m.random.IntN(10) == 0
	m.breaker.record(o, c == m.probe, c.ticket.shared, time.Now())
	if c == m.probe || m.breaker.state() != unreachable {
		m.probe = nil
	}
	switch o {
	case outcomeUnknown:
	case outcomeWorking:
		m.failed[c.entry.lane] = 0
	default:
		m.failed[c.entry.lane]++
	}
	c.outcome <- o
}

// admit applies timeouts and begins the calls that may begin.
func (m *gateModel) admit() {
	now := time.Now()
	shut := m.breaker.state() == unreachable && m.probe == nil && !m.breaker.next(now).IsZero()
	for _, e := range m.entries {
		late := e.ctx.Err() == nil && !now.Before(e.deadline)
		if e.ctx.Err() != nil || late || shut {
			for _, c := range e.in("waits") {
				c.state, e.late = "left", late
			}
		}
	}
	for m.pass(now) {
	}
}

// pass begins the next call, if it may begin.
func (m *gateModel) pass(now time.Time) bool {
	running, inFlight := m.running(), map[laneKey]int{}
	failing := 0
	for _, c := range running {
		if m.failed[c.entry.lane] >= downAfter {
			failing++
		}
		inFlight[c.entry.lane]++
	}
	at, fewest, least := -1, 0, 0
	for i, e := range m.entries {
		if len(e.in("waits")) == 0 || m.failed[e.lane] >= downAfter && failing >= max(1, m.gate.maxCalls*3/4) {
			continue
		}
		calls, turn := inFlight[e.lane], m.turns[e.lane]
		if e.lane.retries {
			if calls *= 4; m.turn-turn < 4 {
				turn = math.MaxInt
			} else {
				turn = 0
			}
		}
		if at < 0 || calls < fewest || calls == fewest && turn < least {
			at, fewest, least = i, calls, turn
		}
	}
	if at < 0 || m.probe != nil || !m.breaker.next(now).IsZero() {
		return false
	}
	e := m.entries[at]
	c := e.in("waits")[0]
	if len(running) == m.gate.maxCalls {
		return false
	}
	if c.state = "runs"; m.breaker.state() == unreachable {
		m.probe = c
	}
	m.breaker.begin(now)
	m.turn++
	m.turns[e.lane] = m.turn
	m.entries = append(slices.Delete(m.entries, at, at+1), e)
	return true
}

// compare compares the gate with the model.
func (m *gateModel) compare(t *testing.T) {
	g := m.gate
	running := m.running()
	for _, e := range m.entries {
		waiting := e.in("waits")
		for _, c := range e.calls {
			assert.Equal(t, c.state == "runs" || c.state == "ended", c.begun, "call state %s", c.state)
		}
		assert.Equal(t, len(waiting)+len(e.in("runs")) == 0, e.returned)
		if e.returned {
			assert.Len(t, e.left, len(e.in("left")))
			assert.Equal(t, e.late, e.wasLate)
		}
	}
	m.entries = slices.DeleteFunc(m.entries, func(e *modelEntry) bool { return e.returned })
	for lane := range m.turns {
		if !slices.ContainsFunc(m.entries, func(e *modelEntry) bool { return e.lane == lane }) {
			delete(m.turns, lane)
			delete(m.failed, lane)
		}
	}
	g.mu.Lock()
	assert.Equal(t, m.breaker, g.breaker)
	assert.Equal(t, len(m.entries), g.intake.entries)
	assert.Equal(t, len(running), g.calls)
	g.mu.Unlock()
	m.compareWant(t, running)
}

// compareWant compares the wanted entries, and checks that the worker is notified.
func (m *gateModel) compareWant(t *testing.T, running []*modelCall) {
	now := time.Now()
	idle := len(running) < m.gate.maxCalls && m.probe == nil && !slices.ContainsFunc(m.entries, func(e *modelEntry) bool { return len(e.in("waits")) > 0 })
	leased := 0
	var taken journal.Want
	for _, e := range m.entries {
		if leased += e.leased; e.lane.retries {
			taken.NoRetries = true
		} else {
			taken.Except = append(taken.Except, e.lane.source)
		}
	}
	slices.Sort(taken.Except)
	taken.Except = slices.Compact(taken.Except)
	var want *journal.Want
	switch {
	case m.breaker.state() == unreachable:
		if idle && m.breaker.next(now).IsZero() {
			want = &journal.Want{}
		}
	case len(m.entries) < minEntries, idle && leased <= maxLeasedCalls:
		want = &journal.Want{}
	default:
		want = &taken
	}
	if want != nil && (m.wanted == nil || more(*want, *m.wanted)) && m.gate.breaker.state() != unreachable {
		assert.True(t, m.looked, "the worker was not notified: wanted %+v, before %+v", want, m.wanted)
	}
	m.looked = false
	got, at, ok := m.gate.want(func() { m.looked = true })
	assert.Equal(t, want != nil, ok)
	if slices.Sort(got.Except); ok {
		assert.Equal(t, *want, got)
	} else {
		assert.Equal(t, m.breaker.next(now), at)
	}
	m.wanted = want
}

// more reports whether a accepts an entry that b does not accept.
func more(a, b journal.Want) bool {
	return b.NoRetries && !a.NoRetries || slices.ContainsFunc(b.Except, func(s string) bool { return !slices.Contains(a.Except, s) })
}

// end cancels the waiting entries, finishes all running calls, and checks that the gate is empty.
func (m *gateModel) end(t *testing.T) {
	for _, e := range slices.Clone(m.entries) { // admit reorders them
		e.cancel()
		m.admit()
		synctest.Wait()
	}
	for _, c := range m.running() {
		c.outcome <- outcomeUnknown
	}
	synctest.Wait()
	assert.Zero(t, m.gate.calls)
	assert.Empty(t, m.gate.queue.lanes)
}
