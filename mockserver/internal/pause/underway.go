package pause

import (
	"context"
	"maps"
	"sync"
)

// Underway is what goes on, by the name of what it is at. The zero value is nothing. Its
// methods may be called from many goroutines at once.
type Underway struct {
	mu   sync.Mutex               // guards ends
	ends map[chan struct{}]string // closed when it has ended
}

// Begin says that something goes on until end is called.
func (u *Underway) Begin(name string) (end func()) {
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

// Await waits until all of a name has ended that has begun. It returns nil, or why ctx ended
// before.
func (u *Underway) Await(ctx context.Context, name string) error {
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
