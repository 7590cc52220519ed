package delivery

import "time"

const (
	// catchUp is the largest delay that a destination may catch up at once, because timers
	// fire late and not for each call of a high rate.
	catchUp = 10 * time.Millisecond
	// wakeStep is the minimum delay at high rates. Several calls are due after it.
	wakeStep = catchUp / 2
)

// A limiter delays calls according to the configured rate and the receiver's Retry-After. It
// does not read the clock: callers pass the time, which must not decrease. It is not safe for concurrent
// use.
type limiter struct {
	interval  time.Duration // between calls; 0 is unlimited
	due       time.Time     // earliest start of the next call
	heldUntil time.Time     // no call begins before; may be zero
}

// setRate sets the maximum number of calls per second; 0 is unlimited.
func (l *limiter) setRate(perSecond float64) {
	l.interval = 0
	if perSecond > 0 {
		l.interval = max(time.Duration(float64(time.Second)/perSecond), 1)
	}
}

// hold lets no call begin before a time. It does not shorten an earlier hold.
func (l *limiter) hold(until time.Time) {
	if until.After(l.heldUntil) {
		l.heldUntil = until
	}
}

// release ends the hold.
func (l *limiter) release() { l.heldUntil = time.Time{} }

// isActive reports whether calls may have to wait.
func (l *limiter) isActive() bool { return l.interval > 0 || !l.heldUntil.IsZero() }

// next returns the earliest start of a call; zero is now.
func (l *limiter) next(now time.Time) (at time.Time) {
	switch {
	case l.heldUntil.After(now):
		return l.heldUntil
	case l.interval > 0 && l.due.After(now):
		if l.interval < wakeStep {
			return l.due.Add(wakeStep)
		}
		return l.due
	}
	return time.Time{}
}

// begin records the start of a call.
func (l *limiter) begin(now time.Time) {
	if !l.heldUntil.After(now) {
		l.release()
	}
	if l.interval == 0 {
		return
	}
	if earliest := now.Add(-catchUp); l.due.Before(earliest) {
		l.due = earliest
	}
	l.due = l.due.Add(l.interval)
}
