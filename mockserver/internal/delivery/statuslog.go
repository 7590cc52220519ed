package delivery

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/logthrottle"
)

// statusEvery is the minimum interval between equal log lines of a destination.
const statusEvery = time.Minute

// A statusLog logs status changes of a destination. If the status changes often, it logs only
// failures that last.
type statusLog struct {
	log         *slog.Logger
	destination string

	givenUp, failed, held logthrottle.Throttle
	cause                 atomic.Pointer[string] // of a failure that is not logged yet, or nil
	down                  atomic.Bool            // the last line reported a failure
}

// changed logs a new state of the breaker with the cause of a failure.
func (s *statusLog) changed(is breakerState, cause string) {
	switch {
	case is == unreachable:
		s.log.Warn("a destination cannot be reached: its calls wait, and now and then one is tried", "destination", s.destination, "error", cause)
	case is == failing:
		s.cause.Store(&cause)
		s.flush(time.Now())
		return
	case s.down.Load():
		s.log.Info("a destination answers again", "destination", s.destination)
	}
	s.cause.Store(nil)
	s.down.Store(is != working)
}

// flush logs a pending failure, at most once per statusEvery.
func (s *statusLog) flush(now time.Time) {
	cause := s.cause.Load()
	if cause == nil {
		return
	}
	if ok, _ := s.failed.Allow(now, statusEvery, 1); ok && s.cause.CompareAndSwap(cause, nil) {
		s.log.Warn("a destination takes no calls: they are tried at a lower rate", "destination", s.destination, "error", *cause)
		s.down.Store(true)
	}
}

// gaveUp logs calls that failed permanently.
func (s *statusLog) gaveUp(now time.Time, calls int, cause string) {
	if ok, suppressed := s.givenUp.Allow(now, statusEvery, calls); ok {
		s.log.Warn("calls were given up; they can be replayed", "destination", s.destination, "calls", calls, "error", cause, "others since the last line", suppressed)
	}
}

// asked logs a pause that the receiver requested.
func (s *statusLog) asked(now time.Time, wait time.Duration, cause string) {
	if ok, _ := s.held.Allow(now, statusEvery, 1); ok {
		s.log.Warn("a destination asked by Retry-After to be left alone: its calls wait", "destination", s.destination, "for", wait, "error", cause)
	}
}
