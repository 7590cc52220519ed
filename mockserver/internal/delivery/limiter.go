package delivery

import "time"

const (
	// catchUp is how far behind its rate a destination may fall and be sent what is due at
	// once: timers wake late, and not for each call of a high rate.
	catchUp = 10 * time.Millisecond
	// wakeStep is how long at least calls wait for a high rate: then several are due.
	wakeStep = catchUp / 2
)

// A limiter says when calls may begin by what the settings and the receiver ask for: at
// most so many a second, evenly spread, and none while the receiver asked to be left
// alone. It knows no clock: each method is told the time, which does not go back. It must
// not be used concurrently.
type limiter struct {
	interval  time.Duration // from one call to the next; 0 for no limit
	due       time.Time     // when the next call is
	heldUntil time.Time     // no call begins before; zero for none
}

// setRate sets how many calls a second may begin; 0 is no limit.
func (l *limiter) setRate(perSecond float64) {
	l.interval = 0
	if perSecond > 0 {
		l.interval = max(time.Duration(float64(time.Second)/perSecond), 1)
	}
}

// hold lets no call begin before a time. An earlier one does not end the hold.
func (l *limiter) hold(until time.Time) {
	if until.After(l.heldUntil) {
		l.heldUntil = until
	}
}

// release ends a hold.
func (l *limiter) release() { l.heldUntil = time.Time{} }

// isActive reports whether calls may have to wait.
func (l *limiter) isActive() bool { return l.interval > 0 || !l.heldUntil.IsZero() }

// next returns when a call may begin; the zero time means now.
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

// begin counts a call that begins.
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
