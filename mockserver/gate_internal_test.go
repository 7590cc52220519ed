package mockserver

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestGateConcurrentSafe sends calls through a gate in all ways at once: they
// pass, fail, give up, make no request, or leave requests behind.
func TestGateConcurrentSafe(t *testing.T) {
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			const maxCalls, maxRequests = 3, 8
			g := newGate(systemClock{}, maxCalls, maxRequests, func() {}, func(breakerState, string) {})
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
			time.Sleep(time.Minute) // the requests that were left behind
			synctest.Wait()
			g.mu.Lock()
			defer g.mu.Unlock()
			assert.Zero(t, g.calls)
			assert.Zero(t, g.requests)
			assert.Zero(t, g.active)
			assert.Zero(t, g.entries)
			assert.Zero(t, g.leased)
			assert.Empty(t, g.lanes.all)
			assert.Nil(t, g.probe)
			_, atRest := g.activity.rest(time.Now())
			assert.True(t, atRest)
			ran := 0
			for _, n := range passed {
				ran += n
			}
			assert.Positive(t, ran)
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
	lane := someLane(random)
	g.beginEntry(lane, len(turns))
	defer g.endEntry(lane, len(turns))
	left, late := g.bring(ctx, lane, turns, deadline)
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

// someLane returns one of four lanes.
func someLane(random *rand.Rand) laneKey {
	return []laneKey{{source: "a"}, {source: "b"}, {source: "c"}, {again: true}}[random.IntN(4)]
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
	assert.LessOrEqual(c.t, g.requests, g.maxRequests+4*g.maxCalls)
	g.mu.Unlock()
	c.ended = true
	requests := c.turn.needs
	switch c.random.IntN(10) {
	case 0:
		return nothing // it makes no request
	case 1:
		requests = 1 + c.random.IntN(5) // its settings have changed
	}
	if requests > 1 {
		g.split(&c.turn, requests)
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
	return []tidings{itAnswers, itFails, itIsNotThere, itIsNotThere, itIsNotThere, itFailsAgain, nothing}[c.random.IntN(7)]
}

// TestGateAtRest: a clock that is moved by hand waits for what is to happen at the
// gate now, and for nothing else: it would wait for ever.
func TestGateAtRest(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	alive := t.Context()
	ended, end := context.WithCancel(alive)
	end()
	later, soon := now.Add(time.Hour), now.Add(time.Minute)
	line := func(ctx context.Context, deadline time.Time, needs int) *gateLine {
		return &gateLine{ctx: ctx, deadline: deadline, waiting: []*turn{{needs: needs}}}
	}
	down := func(probeAt time.Time) breaker { return breaker{missed: downAfter, probeAt: probeAt} }
	for name, test := range map[string]struct {
		gate   *gate // 4 requests are under way, and there is room for 1
		lines  []*gateLine
		atRest bool
		until  time.Time
	}{
		"nothing waits":                   {atRest: true},
		"a call may pass":                 {lines: []*gateLine{line(alive, later, 1)}},
		"the first needs too much":        {lines: []*gateLine{line(alive, later, 2), line(alive, later.Add(1), 1)}, atRest: true, until: later},
		"the second was interrupted":      {lines: []*gateLine{line(alive, later, 2), line(ended, later, 2)}},
		"the second is late":              {lines: []*gateLine{line(alive, later, 2), line(alive, now, 2)}},
		"something goes on":               {gate: &gate{activity: activity{active: 1}}},
		"it cannot be reached":            {gate: &gate{breaker: down(soon)}, lines: []*gateLine{line(alive, later, 1)}},
		"it is probed":                    {gate: &gate{breaker: down(now), probe: &turn{}}, lines: []*gateLine{line(alive, later, 1)}, atRest: true, until: later},
		"it may be probed":                {gate: &gate{breaker: down(now)}, lines: []*gateLine{line(alive, later, 1)}},
		"there is no room for a probe":    {gate: &gate{breaker: down(now.Add(-1))}, lines: []*gateLine{line(alive, later, 2)}, atRest: true, until: later},
		"it fails, and a call may pass":   {gate: &gate{breaker: breaker{failed: downAfter, left: 1}}, lines: []*gateLine{line(alive, later, 1)}},
		"it fails, and none may pass now": {gate: &gate{breaker: breaker{failed: downAfter, stepEnd: soon}}, lines: []*gateLine{line(alive, later, 1)}, atRest: true, until: soon},
		"it fails, and the call is late":  {gate: &gate{breaker: breaker{failed: downAfter, stepEnd: later}}, lines: []*gateLine{line(alive, soon, 1)}, atRest: true, until: soon},
		"there is no room for a call":     {gate: &gate{calls: 4}, lines: []*gateLine{line(alive, later, 1)}, atRest: true, until: later},
	} {
		t.Run(name, func(t *testing.T) {
			g := cmp.Or(test.gate, &gate{})
			g.requests, g.maxCalls, g.maxRequests, g.lanes.most = 4, 4, 5, 3
			for _, l := range test.lines {
				g.lanes.begin(l.lane)
				g.lanes.wait(l)
			}
			until, atRest := g.rest(now)
			assert.Equal(t, test.atRest, atRest)
			if atRest {
				assert.Equal(t, test.until, until)
			}
		})
	}
}

// TestGateIsAsItsModel does at random what can happen to a gate, one thing at a
// time, and compares who is under way with a model that looks at everything anew.
func TestGateIsAsItsModel(t *testing.T) {
	states := map[breakerState]int{}
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 7))
			m := &gateModel{random: random, turns: map[laneKey]int{}, failed: map[laneKey]int{}, looked: true, bad: []tidings{itFails, itIsNotThere, itAnswers}[seed%3]}
			m.gate = newGate(systemClock{}, 1+random.IntN(8), 5+random.IntN(6), func() {}, func(breakerState, string) {})
			m.breaker.failed = []int{0, 50_000}[seed%2] // where it fails, hardly any pass
			m.gate.breaker.failed = m.breaker.failed
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
		assert.Greater(t, states[s], 500, "state %d was hardly seen", s)
	}
}

// A gateModel is what a gate should be. Its breaker has tests of its own.
type gateModel struct {
	gate    *gate
	random  *rand.Rand
	bad     tidings      // what most calls come to
	lines   []*modelLine // within a lane, the first that waits is the next
	behind  int          // requests that ended calls have left behind
	breaker breaker
	probe   *modelCall
	turn    int
	turns   map[laneKey]int // the last of each lane that has an entry
	failed  map[laneKey]int // calls in a row

	wanted *Want // returned last; nil if nothing was
	looked bool  // more is wanted since
}

type modelLine struct {
	lane     laneKey
	calls    []*modelCall
	ctx      context.Context
	cancel   context.CancelFunc
	deadline time.Time
	late     bool
	held     int

	returned bool // by the gate
	left     []*turn
	wasLate  bool
}

type modelCall struct {
	turn  turn
	line  *modelLine
	state string // waits, runs, ended or left
	split bool
	told  chan tidings // ends it

	begun bool // by the gate
}

func (c *modelCall) run() tidings {
	c.begun = true
	return <-c.told
}

// in returns the calls of a line that are in a state.
func (l *modelLine) in(state string) (calls []*modelCall) {
	for _, c := range l.calls {
		if c.state == state {
			calls = append(calls, c)
		}
	}
	return calls
}

func (m *gateModel) running() (calls []*modelCall) {
	for _, l := range m.lines {
		calls = append(calls, l.in("runs")...)
	}
	return calls
}

// step lets something happen.
func (m *gateModel) step() {
	running := m.running()
	switch n := m.random.IntN(100); {
	case n < 15 && len(m.lines) < 12:
		m.bring()
	case n < 30 && len(running) > 0:
		m.split(running[m.random.IntN(len(running))])
	case n < 70 && len(running) > 0:
		m.endCall(running[m.random.IntN(len(running))])
	case n < 78 && m.behind > 0:
		m.behind--
		m.gate.requestEnded()
		m.gate.end()
	case n < 80 && len(m.lines) > 0:
		m.lines[m.random.IntN(len(m.lines))].cancel()
	case n < 95:
		m.sleep(time.Duration(m.random.IntN(1500)) * time.Millisecond)
	}
}

// sleep lets time pass, and what happens meanwhile happen.
func (m *gateModel) sleep(d time.Duration) {
	for end := time.Now().Add(d); ; {
		at := earlier(end, m.breaker.next(time.Now()))
		for _, l := range m.lines {
			if len(l.in("waits")) > 0 {
				at = earlier(at, l.deadline)
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

// bring brings an entry before the gate.
func (m *gateModel) bring() {
	l := &modelLine{lane: someLane(m.random), deadline: time.Now().Add(time.Duration(m.random.IntN(60_000)) * time.Millisecond)}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	var turns []*turn
	for range m.random.IntN(8) {
		c := &modelCall{line: l, state: "waits", told: make(chan tidings)}
		c.turn = turn{call: c, needs: 1 + m.random.IntN(5)}
		l.calls, turns = append(l.calls, c), append(turns, &c.turn)
	}
	m.lines = append(m.lines, l)
	if m.turns[l.lane] == 0 {
		m.turn++
		m.turns[l.lane] = m.turn
	}
	held := len(turns)
	if m.random.IntN(2) == 0 {
		held += 200 // that were decided before
	}
	l.held = held
	m.looked = true // whoever takes an entry asks for more by itself
	m.gate.beginEntry(l.lane, held)
	go func() {
		defer m.gate.endEntry(l.lane, held)
		l.left, l.wasLate = m.gate.bring(l.ctx, l.lane, turns, l.deadline)
		l.returned = true
	}()
}

// split lets a call make several requests, one of which ends.
func (m *gateModel) split(c *modelCall) {
	if c.split {
		return
	}
	requests := c.turn.needs
	if m.random.IntN(4) == 0 {
		requests = 1 + m.random.IntN(5) // its settings have changed
	}
	c.split = true
	m.gate.split(&c.turn, requests)
	m.gate.requestEnded()
	m.behind += requests - 1
}

// endCall ends a call, which may leave requests behind.
func (m *gateModel) endCall(c *modelCall) {
	told := m.bad
	switch m.random.IntN(40) {
	case 0:
		told = nothing
	case 1:
		told = itAnswers
	case 2:
		told = itFails
	case 3:
		told = itIsNotThere
	case 4:
		told = itFailsAgain
	}
	c.state = "ended"
	m.breaker.learn(told, c == m.probe, time.Now())
	if c == m.probe || m.breaker.state() != unreachable {
		m.probe = nil
	}
	switch told {
	case nothing:
	case itAnswers:
		m.failed[c.line.lane] = 0
	default:
		m.failed[c.line.lane]++
	}
	c.told <- told
}

// admit lets those give up that should, and those pass that may.
func (m *gateModel) admit() {
	now := time.Now()
	shut := m.breaker.state() == unreachable && m.probe == nil && !m.breaker.next(now).IsZero()
	for _, l := range m.lines {
		late := l.ctx.Err() == nil && !now.Before(l.deadline)
		if l.ctx.Err() != nil || late || shut {
			for _, c := range l.in("waits") {
				c.state, l.late = "left", late
			}
		}
	}
	for m.pass(now) {
	}
}

// pass lets the call pass whose turn it is, if it may.
func (m *gateModel) pass(now time.Time) bool {
	running, underWay := m.running(), map[laneKey]int{}
	requests, failing := m.behind, 0
	for _, c := range running {
		if m.failed[c.line.lane] >= downAfter {
			failing++
		}
		underWay[c.line.lane]++
		if !c.split {
			requests += c.turn.needs
		}
	}
	at, fewest, least := -1, 0, 0
	for i, l := range m.lines {
		if len(l.in("waits")) == 0 || m.failed[l.lane] >= downAfter && failing >= max(1, m.gate.maxCalls*3/4) {
			continue
		}
		calls, turn := underWay[l.lane], m.turns[l.lane]
		if l.lane.again {
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
	l := m.lines[at]
	c := l.in("waits")[0]
	if len(running) == m.gate.maxCalls || requests > 0 && requests+c.turn.needs > m.gate.maxRequests {
		return false
	}
	if c.state = "runs"; m.breaker.state() == unreachable {
		m.probe = c
	}
	m.breaker.passed(now)
	m.turn++
	m.turns[l.lane] = m.turn
	m.lines = append(slices.Delete(m.lines, at, at+1), l)
	return true
}

// compare compares the gate with the model, when nothing moves.
func (m *gateModel) compare(t *testing.T) {
	g, now := m.gate, time.Now()
	running := m.running()
	var until time.Time
	for _, l := range m.lines {
		waiting := l.in("waits")
		for _, c := range l.calls {
			assert.Equal(t, c.state == "runs" || c.state == "ended", c.begun, "whether a call %s", c.state)
		}
		assert.Equal(t, len(waiting)+len(l.in("runs")) == 0, l.returned)
		if l.returned {
			assert.Len(t, l.left, len(l.in("left")))
			assert.Equal(t, l.late, l.wasLate)
		} else if len(waiting) > 0 {
			until = earlier(until, l.deadline)
			if m.probe == nil {
				until = earlier(until, m.breaker.next(now))
			}
		}
	}
	m.lines = slices.DeleteFunc(m.lines, func(l *modelLine) bool { return l.returned })
	for lane := range m.turns {
		if !slices.ContainsFunc(m.lines, func(l *modelLine) bool { return l.lane == lane }) {
			delete(m.turns, lane)
			delete(m.failed, lane)
		}
	}
	g.mu.Lock()
	assert.Equal(t, m.breaker, g.breaker)
	assert.Equal(t, len(m.lines), g.entries)
	assert.Equal(t, len(running)+m.behind, g.active, "what keeps a clock that is moved by hand from moving")
	got, atRest := g.rest(now)
	g.mu.Unlock()
	assert.Equal(t, g.active == 0, atRest)
	assert.Equal(t, until, got)
	m.compareWant(t, running)
}

// compareWant compares which entries are wanted, and that the forwarder is told of
// more.
func (m *gateModel) compareWant(t *testing.T, running []*modelCall) {
	now := time.Now()
	idle := len(running) < m.gate.maxCalls && m.probe == nil && !slices.ContainsFunc(m.lines, func(l *modelLine) bool { return len(l.in("waits")) > 0 })
	held := 0
	var taken Want
	for _, l := range m.lines {
		if held += l.held; l.lane.again {
			taken.NoRetries = true
		} else {
			taken.Except = append(taken.Except, l.lane.source)
		}
	}
	slices.Sort(taken.Except)
	taken.Except = slices.Compact(taken.Except)
	var want *Want
	switch {
	case m.breaker.state() == unreachable:
		if idle && m.breaker.next(now).IsZero() {
			want = &Want{}
		}
	case len(m.lines) < leases, idle && len(m.lines) < m.gate.maxCalls && held <= heldCalls:
		want = &Want{}
	default:
		want = &taken
	}
	if want != nil && (m.wanted == nil || more(*want, *m.wanted)) && m.gate.breaker.state() != unreachable {
		assert.True(t, m.looked, "the forwarder is not told that more is wanted: %+v, before %+v", want, m.wanted)
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

// more reports whether a takes an entry that b does not.
func more(a, b Want) bool {
	return b.NoRetries && !a.NoRetries || slices.ContainsFunc(b.Except, func(s string) bool { return !slices.Contains(a.Except, s) })
}

// end lets all come to their end.
func (m *gateModel) end(t *testing.T) {
	for _, l := range slices.Clone(m.lines) { // admit changes their order
		l.cancel()
		m.admit()
		synctest.Wait()
	}
	for _, c := range m.running() {
		c.told <- nothing
	}
	for ; m.behind > 0; m.behind-- {
		m.gate.requestEnded()
		m.gate.end()
	}
	synctest.Wait()
	assert.Zero(t, m.gate.active)
	assert.Zero(t, m.gate.calls)
	assert.Zero(t, m.gate.requests)
	assert.Empty(t, m.gate.lanes.all)
}
