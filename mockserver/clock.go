package mockserver

import "time"

// A Clock tells the collector the time and wakes it. Its methods may be called
// from many goroutines at once.
type Clock interface {
	Now() time.Time
	// After returns a channel that gets the time once d has passed, and a
	// function that stops the timer.
	After(d time.Duration) (<-chan time.Time, func())
}

// systemClock is the clock of the machine.
type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) After(d time.Duration) (<-chan time.Time, func()) {
	t := time.NewTimer(d)
	return t.C, func() { t.Stop() }
}

// wakeAt returns a channel that gets the time at t, and a function that stops the
// timer. A clock that may be moved between a look at it and a call of After has
// a method At.
func wakeAt(c Clock, t time.Time) (<-chan time.Time, func()) {
	if c, ok := c.(interface {
		At(t time.Time) (<-chan time.Time, func())
	}); ok {
		return c.At(t)
	}
	return c.After(t.Sub(c.Now()))
}
