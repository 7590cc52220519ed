// Package logthrottle limits the rate of repeated log lines.
package logthrottle

import (
	"sync"
	"time"
)

// A Throttle limits the rate of a log line and counts suppressed events. The zero value is
// ready to use. It is safe for concurrent use.
type Throttle struct {
	mu         sync.Mutex // guards the fields below
	last       time.Time  // time of the last line
	suppressed int        // events since the last line
}

// Allow reports whether a line about n events may be logged, at most once per every. If so,
// it also returns the number of events suppressed since the last line.
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
