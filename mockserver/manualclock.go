package mockserver

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"
)

// A ManualClock is a Clock that stands still until a test moves it. Give it to a
// Config, and hours of retries pass in milliseconds, the same way each time:
//
//	clock := mockserver.NewManualClock(time.Now())
//	srv := mockserver.RunT(t, mockserver.Config{Clock: clock, …})
//	…
//	clock.Advance(4 * time.Hour)
//
// Its methods may be called from many goroutines at once.
type ManualClock struct {
	advancing sync.Mutex    // lets one Advance run at a time
	stirred   chan struct{} // holds a token when something may have come to rest; never closed

	mu     sync.Mutex // guards what follows
	now    time.Time
	timers []*manualTimer // the earliest first
	users  map[rester]struct{}
}

// A rester is what a ManualClock waits for.
type rester interface {
	// rest tells whether all that goes on waits for the clock to pass now, and
	// until when at most; the zero time is for ever.
	rest(now time.Time) (until time.Time, atRest bool)
}

type manualTimer struct {
	at time.Time
	c  chan time.Time
}

// NewManualClock returns a clock that shows a time.
func NewManualClock(now time.Time) *ManualClock {
	return &ManualClock{now: now, stirred: make(chan struct{}, 1), users: map[rester]struct{}{}}
}

// Now returns the time that the clock shows.
func (m *ManualClock) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// After implements Clock. The channel gets a time when Advance passes it.
func (m *ManualClock) After(d time.Duration) (<-chan time.Time, func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.at(m.now.Add(d))
}

// At returns a channel that gets a time when Advance comes to t, at once if it
// has, and a function that stops the timer.
func (m *ManualClock) At(t time.Time) (<-chan time.Time, func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.at(t)
}

func (m *ManualClock) at(at time.Time) (<-chan time.Time, func()) {
	t := &manualTimer{at: at, c: make(chan time.Time, 1)}
	if !at.After(m.now) {
		t.c <- m.now
		return t.c, func() {}
	}
	i, _ := slices.BinarySearchFunc(m.timers, t, func(a, b *manualTimer) int { return cmp.Or(a.at.Compare(b.at), -1) })
	m.timers = slices.Insert(m.timers, i, t)
	return t.c, func() { m.stop(t) }
}

func (m *ManualClock) stop(t *manualTimer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := slices.Index(m.timers, t); i >= 0 {
		m.timers = slices.Delete(m.timers, i, i+1)
	}
}

// Advance moves the clock on. It stops at each time that something waits for,
// and goes on once the collectors that use the clock have done what was due then
// and wait for a later time. Requests to webhooks take no time on this clock, but
// Advance waits for their answers; those to a webhook that does not answer end
// after the Sender's time-out on the machine's clock.
//
// It knows of the deliveries of collectors with a journal in memory, and of the
// delays of Faults, but not of senders: a test calls Advance when its calls have
// been answered.
func (m *ManualClock) Advance(d time.Duration) {
	m.advancing.Lock()
	defer m.advancing.Unlock()
	target := m.Now().Add(d)
	for m.step(m.settle(), target) {
	}
}

// Settle waits until all that is due now is done, and moves nothing.
func (m *ManualClock) Settle() {
	m.advancing.Lock()
	defer m.advancing.Unlock()
	m.settle()
}

// step moves the clock to the next time that something waits for, no further than
// target. It is false if the clock was there.
func (m *ManualClock) step(next, target time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.now.Before(target) {
		return false
	}
	to := earlier(next, target)
	if len(m.timers) > 0 {
		to = earlier(to, m.timers[0].at)
	}
	if to.After(m.now) {
		m.now = to
	}
	for len(m.timers) > 0 && !m.timers[0].at.After(m.now) {
		m.timers[0].c <- m.now
		m.timers = m.timers[1:]
	}
	return true
}

// settle waits until all users rest, and returns until when they do at most.
func (m *ManualClock) settle() (until time.Time) {
	for {
		until, atRest := m.rest()
		if atRest {
			return until
		}
		<-m.stirred
	}
}

func (m *ManualClock) rest() (until time.Time, atRest bool) {
	m.mu.Lock()
	now, users := m.now, slices.Collect(maps.Keys(m.users))
	m.mu.Unlock()
	atRest = true
	for _, u := range users {
		next, resting := u.rest(now)
		until, atRest = earlier(until, next), atRest && resting
	}
	return until, atRest
}

// join makes Advance wait for a user of the clock, until leave is called.
func (m *ManualClock) join(u rester) (leave func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.users[u] = struct{}{}
	return func() {
		m.mu.Lock()
		delete(m.users, u)
		m.mu.Unlock()
		m.stir()
	}
}

// stir makes settle look again.
func (m *ManualClock) stir() {
	select {
	case m.stirred <- struct{}{}:
	default: // it will look anyway
	}
}
