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
	ends map[chan struct{}]string // names by channel; a channel is closed when its operation has ended
}

// Begin records the start of an operation. The caller must call end when the operation has ended.
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

// Wait waits until all operations that have begun with a name have ended, and returns nil. If ctx is
// canceled first, it returns the cause.
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
