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
