package mockserver

import (
	"context"
	"sync"
	"time"
)

const (
	// breakerThreshold is how many calls in a row must fail before a destination
	// is taken to be down.
	breakerThreshold = 10
	// While a destination is down, one call at a time probes it: at first after
	// breakerFirst, then after twice as long each time, up to breakerMax.
	breakerFirst = time.Second
	breakerMax   = 30 * time.Second
)

// A breaker keeps calls from a destination that is down. They wait where they
// are, most of them in the journal, at no cost.
type breaker struct {
	clock Clock

	mu       sync.Mutex // guards what follows
	failures int        // in a row
	pause    time.Duration
	probeAt  time.Time     // zero while closed
	probing  bool          // a call is under way to see whether the destination is back
	changed  chan struct{} // closed when the state changes
}

func newBreaker(clock Clock) *breaker {
	return &breaker{clock: clock, changed: make(chan struct{})}
}

// wait returns when a call may be tried, when the deadline has passed, or when
// ctx ends: only the first is true.
func (b *breaker) wait(ctx context.Context, deadline time.Time) bool {
	for {
		b.mu.Lock()
		now := b.clock.Now()
		switch {
		case !now.Before(deadline):
			b.mu.Unlock()
			return false
		case b.probeAt.IsZero():
			b.mu.Unlock()
			return ctx.Err() == nil
		case !b.probing && !now.Before(b.probeAt):
			b.probing = true
			b.mu.Unlock()
			return ctx.Err() == nil || b.abandon()
		}
		until := deadline
		if !b.probing && b.probeAt.Before(until) {
			until = b.probeAt
		}
		changed := b.changed
		b.mu.Unlock()
		timer, stop := b.clock.After(until.Sub(now))
		select {
		case <-timer:
		case <-changed:
		case <-ctx.Done():
			stop()
			return false
		}
		stop()
	}
}

// abandon lets another call probe instead. It returns false.
func (b *breaker) abandon() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing = false
	b.tell()
	return false
}

// report says how a call ended that wait let through.
func (b *breaker) report(success bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	wasOpen := !b.probeAt.IsZero()
	switch {
	case success:
		b.failures, b.pause, b.probeAt, b.probing = 0, 0, time.Time{}, false
	case wasOpen && !b.probing:
		return // it was under way when the breaker opened
	default:
		b.failures++
		b.probing = false
		if b.failures >= breakerThreshold {
			b.pause = min(max(2*b.pause, breakerFirst), breakerMax)
			b.probeAt = b.clock.Now().Add(b.pause)
		}
	}
	if wasOpen || !b.probeAt.IsZero() {
		b.tell()
	}
}

// tell wakes those who wait. The lock is held.
func (b *breaker) tell() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// open tells whether the destination is taken to be down.
func (b *breaker) open() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.probeAt.IsZero()
}
