package mockserver

import (
	"sync"
	"time"
)

// saidEvery is how often the log says the same about requests: while the disk is
// full, each of them would.
const saidEvery = time.Second

// A seldom tells when something is to be said again, and how often it was not.
type seldom struct {
	mu      sync.Mutex // guards what follows
	said    time.Time
	unsaid  int
	started bool
}

func (s *seldom) say(now time.Time) (yes bool, unsaid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started && now.Sub(s.said) < saidEvery {
		s.unsaid++
		return false, 0
	}
	unsaid = s.unsaid
	s.said, s.unsaid, s.started = now, 0, true
	return true, unsaid
}
