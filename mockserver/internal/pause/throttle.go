package pause

import (
	"sync"
	"time"
)

// A Throttle limits the rate of a log message and counts suppressed events. The zero value is
// ready to use. It is safe for concurrent use.
type Throttle struct {
	mu         sync.Mutex // guards the fields below
	last       time.Time  // time of the last message
	suppressed int        // number of events since the last message
}

// Allow reports whether a message about n events may be logged now. At most one message is allowed
// in the interval every. If ok is true, suppressed is the number of events since the last message.
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
