package delivery

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
)

// statusEvery is the minimum interval between equal log lines of a destination.
const statusEvery = time.Minute

// A statusLog logs status changes of a destination. If the status changes often, it logs only
// failures that continue.
type statusLog struct {
	log         *slog.Logger
	destination string

	givenUp, failed, paused pause.Throttle
	cause                   atomic.Pointer[string] // cause of a failure that is not logged yet, or nil
	down                    atomic.Bool            // the last message reported a failure
}

// changed logs a new state of the breaker with the cause of a failure.
func (s *statusLog) changed(is breakerState, cause string) {
	switch {
	case is == unreachable:
		s.log.Warn("destination unreachable: its calls wait; probing once per second", "destination", s.destination, "error", cause)
	case is == failing:
		s.cause.Store(&cause)
		s.flush(time.Now())
		return
	case s.down.Load():
		s.log.Info("destination recovered", "destination", s.destination)
	}
	s.cause.Store(nil)
	s.down.Store(is != working)
}

// flush logs a failure that is not logged yet, at most once per statusEvery.
func (s *statusLog) flush(now time.Time) {
	cause := s.cause.Load()
	if cause == nil {
		return
	}
	if ok, _ := s.failed.Allow(now, statusEvery, 1); ok && s.cause.CompareAndSwap(cause, nil) {
		s.log.Warn("destination failing: reduced rate of attempts", "destination", s.destination, "error", *cause)
		s.down.Store(true)
	}
}

// gaveUp logs calls that failed permanently.
func (s *statusLog) gaveUp(now time.Time, calls int, cause string) {
	if ok, suppressed := s.givenUp.Allow(now, statusEvery, calls); ok {
		s.log.Warn("calls failed permanently; they can be replayed", "destination", s.destination, "calls", calls, "error", cause, "failed since the last message", suppressed)
	}
}

// pauseRequested logs a pause that a response requires.
func (s *statusLog) pauseRequested(now time.Time, wait time.Duration, cause string) {
	if ok, _ := s.paused.Allow(now, statusEvery, 1); ok {
		s.log.Warn("a response requires a pause: the destination's calls wait", "destination", s.destination, "for", wait, "error", cause)
	}
}
