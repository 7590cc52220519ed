// Package logthrottle keeps a log from saying the same thing again and again: of
// events that come in a flood, one line in a while tells how many there were.
//
// A [Throttle] has a mutex of its own, and holds it for a few instructions.
package logthrottle

import (
	"sync"
	"time"
)

// A Throttle keeps a log from saying the same thing again and again. The zero
// value is ready for use. It may be used from many goroutines at once.
type Throttle struct {
	mu         sync.Mutex // guards what follows
	last       time.Time  // when a line was let through; zero before the first
	suppressed int        // events since then
}

// Allow reports whether a line about n events may be logged now, at most one in
// every. If so, it also returns how many events were suppressed since the last line.
func (t *Throttle) Allow(now time.Time, every time.Duration, n int) (ok bool, suppressed int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.last.IsZero() && now.Sub(t.last) < every {
		t.suppressed += n
		return false, 0
	}
	suppressed = t.suppressed
	t.last, t.suppressed = now, 0
	return true, suppressed
}
