package pause

import (
	"context"
	"maps"
	"sync"
)

// InFlight tracks running operations by name. The zero value is ready to use. Its methods are
// safe for concurrent use.
type InFlight struct {
	mu   sync.Mutex               // guards ends
	ends map[chan struct{}]string // closed when the operation has ended
}

// Begin adds an operation. The caller calls end when it has ended.
func (u *InFlight) Begin(name string) (end func()) {
	ended := make(chan struct{})
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ends == nil {
		u.ends = map[chan struct{}]string{}
	}
	u.ends[ended] = name
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.ends, ended)
		close(ended)
	}
}

// Wait waits until all current operations with a name have ended and returns nil, or returns the
// cause when ctx ends earlier.
func (u *InFlight) Wait(ctx context.Context, name string) error {
	u.mu.Lock()
	ends := maps.Clone(u.ends)
	u.mu.Unlock()
	for ended, of := range ends {
		if of != name {
			continue
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
