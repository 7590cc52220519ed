package mockserver

import (
	"sync"
	"time"
)

// refusalsEvery is how often the log says the same about requests, each of which would
// while the disk is full.
const refusalsEvery = time.Second

// A seldom tells when something is to be said again, and of how many it was not.
type seldom struct {
	mu      sync.Mutex // guards what follows
	said    time.Time
	unsaid  int
	started bool
}

// say tells whether something is to be said now of so many, and of how many it was
// not since the last time.
func (s *seldom) say(now time.Time, every time.Duration, many int) (yes bool, unsaid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started && now.Sub(s.said) < every {
		s.unsaid += many
		return false, 0
	}
	unsaid = s.unsaid
	s.said, s.unsaid, s.started = now, 0, true
	return true, unsaid
}
