package delivery

import "time"

const (
	// catchUp limits the calls that may begin at once after a delay: the limiter makes up for at
	// most this much time. It is necessary because timers fire late, and less often than calls
	// are sent at high rates.
	catchUp = 10 * time.Millisecond
	// wakeStep is the minimum wait at high rates. Several calls may begin after it.
	wakeStep = catchUp / 2
)

// A limiter delays calls according to the configured rate and the receiver's Retry-After. It
// does not read the clock: callers pass the time, which must not decrease. It is not safe for concurrent
// use.
type limiter struct {
	interval    time.Duration // minimum interval between calls; 0 is unlimited
	due         time.Time     // earliest start of the next call
	pausedUntil time.Time     // end of the pause, or zero
}

// setRate sets the maximum number of calls per second; 0 is unlimited. The new rate also determines how
// long the next call waits after the last one.
func (l *limiter) setRate(perSecond float64) {
	before := l.interval
	l.interval = 0
	if perSecond > 0 {
		l.interval = max(time.Duration(float64(time.Second)/perSecond), 1)
	}
	l.due = l.due.Add(l.interval - before)
}

// pauseUntil starts a pause until a time. It does not shorten an existing pause.
func (l *limiter) pauseUntil(until time.Time) {
	if until.After(l.pausedUntil) {
		l.pausedUntil = until
	}
}

// isPaused reports whether there is a pause that has not ended.
func (l *limiter) isPaused(now time.Time) bool { return l.pausedUntil.After(now) }

// release ends the pause.
func (l *limiter) release() { l.pausedUntil = time.Time{} }

// isActive reports whether calls may have to wait.
func (l *limiter) isActive() bool { return l.interval > 0 || !l.pausedUntil.IsZero() }

// next returns the earliest time at which a call may begin. The zero time means now.
func (l *limiter) next(now time.Time) (at time.Time) {
	switch {
	case l.isPaused(now):
		return l.pausedUntil
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
	if !l.isPaused(now) {
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
