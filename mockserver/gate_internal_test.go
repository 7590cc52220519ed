package mockserver

import (
	"cmp"
	"context"
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
			g := newGate(systemClock{}, maxCalls, maxRequests, func() {}, func(bool, string) {})
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
			assert.Empty(t, g.lines)
			assert.Nil(t, g.probe)
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
	g.beginEntry(len(turns))
	defer g.endEntry(len(turns))
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
	return []tidings{itAnswers, itFails, itFails, itFails, itFailsAgain, nothing}[c.random.IntN(6)]
}

// TestGateAtRest: a clock that is moved by hand waits for what is to happen at the
// gate now, and for nothing else: it would wait for ever.
func TestGateAtRest(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	alive := t.Context()
	ended, end := context.WithCancel(alive)
	end()
	later, probe := now.Add(time.Hour), now.Add(time.Minute)
	line := func(ctx context.Context, deadline time.Time, needs int) *gateLine {
		return &gateLine{ctx: ctx, deadline: deadline, waiting: []*turn{{needs: needs}}}
	}
	for name, test := range map[string]struct {
		gate   *gate // 4 requests are under way, and there is room for 1
		lines  []*gateLine
		atRest bool
		until  time.Time
	}{
		"nothing waits":                  {atRest: true},
		"a call may pass":                {lines: []*gateLine{line(alive, later, 1)}},
		"the first needs too much":       {lines: []*gateLine{line(alive, later, 2), line(alive, later.Add(1), 1)}, atRest: true, until: later},
		"the second was interrupted":     {lines: []*gateLine{line(alive, later, 2), line(ended, later, 2)}},
		"the second is late":             {lines: []*gateLine{line(alive, later, 2), line(alive, now, 2)}},
		"something goes on":              {gate: &gate{activity: activity{active: 1}}},
		"it is down":                     {gate: &gate{probeAt: probe}, lines: []*gateLine{line(alive, later, 1)}, atRest: true, until: probe},
		"it is probed":                   {gate: &gate{probeAt: now, probe: &turn{}}, lines: []*gateLine{line(alive, later, 1)}, atRest: true, until: later},
		"it may be probed":               {gate: &gate{probeAt: now}, lines: []*gateLine{line(alive, later, 1)}},
		"there is no room for a probe":   {gate: &gate{probeAt: now.Add(-1)}, lines: []*gateLine{line(alive, later, 2)}, atRest: true, until: later},
		"the deadline is before a probe": {gate: &gate{probeAt: later}, lines: []*gateLine{line(alive, probe, 1)}, atRest: true, until: probe},
		"there is no room for a call":    {gate: &gate{calls: 4}, lines: []*gateLine{line(alive, later, 1)}, atRest: true, until: later},
	} {
		t.Run(name, func(t *testing.T) {
			g := cmp.Or(test.gate, &gate{})
			g.lines, g.requests, g.maxCalls, g.maxRequests = test.lines, 4, 4, 5
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
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 7))
			m := &gateModel{random: random, hadRoom: true}
			m.gate = newGate(systemClock{}, 1+random.IntN(8), 5+random.IntN(6), func() {}, func(bool, string) {})
			for range 300 {
				m.step()
				m.admit()
				synctest.Wait()
				if m.compare(t); t.Failed() {
					t.Fatal("seed ", seed)
				}
			}
			m.end(t)
		})
	}
}

// A gateModel is what a gate should be.
type gateModel struct {
	gate    *gate
	random  *rand.Rand
	lines   []*modelLine // the first that waits is the next
	behind  int          // requests that ended calls have left behind
	hadRoom bool         // for another entry

	failures int
	pause    time.Duration
	probeAt  time.Time // zero while it is up
	probe    *modelCall
}

type modelLine struct {
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
	again bool   // it has failed before
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
	case n < 15 && len(m.lines) < 7:
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
		time.Sleep(time.Duration(m.random.IntN(1500)) * time.Millisecond)
	}
}

// bring brings an entry before the gate.
func (m *gateModel) bring() {
	l := &modelLine{deadline: time.Now().Add(time.Duration(m.random.IntN(60_000)) * time.Millisecond)}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	again := m.random.IntN(3) == 0
	var turns []*turn
	for range m.random.IntN(8) {
		c := &modelCall{line: l, again: again, state: "waits", told: make(chan tidings)}
		c.turn = turn{call: c, needs: 1 + m.random.IntN(5)}
		l.calls, turns = append(l.calls, c), append(turns, &c.turn)
	}
	m.lines = append(m.lines, l)
	held := len(turns)
	if m.random.IntN(2) == 0 {
		held += 200 // that were decided before
	}
	l.held = held
	m.gate.beginEntry(held)
	go func() {
		defer m.gate.endEntry(held)
		l.left, l.wasLate = m.gate.bring(l.ctx, turns, l.deadline)
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
	told := itFails
	switch m.random.IntN(12) {
	case 0:
		told = nothing
	case 1:
		told = itAnswers
	default:
		if c.again {
			told = itFailsAgain
		}
	}
	c.state = "ended"
	m.learn(c, told)
	c.told <- told
}

// learn takes in what a call tells.
func (m *gateModel) learn(c *modelCall, told tidings) {
	up, probe := m.probeAt.IsZero(), c == m.probe
	if probe {
		m.probe = nil
	}
	switch {
	case told == itAnswers:
		m.failures, m.pause, m.probeAt, m.probe = 0, 0, time.Time{}, nil
	case told == itFails && up, told != nothing && probe:
		if m.failures++; m.failures >= downAfter {
			m.pause = min(max(2*m.pause, firstProbe), maxProbe)
			m.probeAt = time.Now().Add(m.pause)
		}
	}
}

// admit lets those give up that should, and those pass that may.
func (m *gateModel) admit() {
	for _, l := range m.lines {
		if l.ctx.Err() != nil || !time.Now().Before(l.deadline) {
			for _, c := range l.in("waits") {
				c.state, l.late = "left", l.ctx.Err() == nil
			}
		}
	}
	for {
		i := slices.IndexFunc(m.lines, func(l *modelLine) bool { return len(l.in("waits")) > 0 })
		if i < 0 {
			return
		}
		l := m.lines[i]
		c, running, requests := l.in("waits")[0], m.running(), m.behind
		for _, r := range running {
			if !r.split {
				requests += r.turn.needs
			}
		}
		full := len(running) == m.gate.maxCalls || requests > 0 && requests+c.turn.needs > m.gate.maxRequests
		down := !m.probeAt.IsZero()
		if full || down && (m.probe != nil || time.Now().Before(m.probeAt)) {
			return
		}
		if c.state = "runs"; down {
			m.probe = c
		}
		m.lines = append(slices.Delete(m.lines, i, i+1), l)
	}
}

// compare compares the gate with the model, when nothing moves.
func (m *gateModel) compare(t *testing.T) {
	g := m.gate
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
			if m.probe == nil && time.Now().Before(m.probeAt) {
				until = earlier(until, m.probeAt)
			}
		}
	}
	m.lines = slices.DeleteFunc(m.lines, func(l *modelLine) bool { return l.returned })
	g.mu.Lock()
	defer g.mu.Unlock()
	assert.Equal(t, m.probeAt, g.probeAt)
	assert.Equal(t, m.failures, g.failures)
	assert.Equal(t, len(m.lines), g.entries)
	assert.Equal(t, len(running)+m.behind, g.active, "what keeps a clock that is moved by hand from moving")
	got, atRest := g.rest(time.Now())
	assert.Equal(t, g.active == 0, atRest)
	assert.Equal(t, until, got)
	m.compareRoom(t, running)
}

// compareRoom compares whether there is room for another entry.
func (m *gateModel) compareRoom(t *testing.T, running []*modelCall) {
	waits := slices.ContainsFunc(m.lines, func(l *modelLine) bool { return len(l.in("waits")) > 0 })
	held := 0
	for _, l := range m.lines {
		held += l.held
	}
	room := len(m.lines) < leases || !waits && max(len(running), len(m.lines)) < m.gate.maxCalls && held <= heldCalls
	assert.Equal(t, room, m.gate.hasRoom())
	select {
	case <-m.gate.room:
	default:
		assert.False(t, room && !m.hadRoom, "one that waits for room is not told")
	}
	m.hadRoom = room
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
	assert.Empty(t, m.gate.lines)
}
