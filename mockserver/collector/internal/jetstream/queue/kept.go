package queue

import (
	"context"
	"maps"
	"sync"

	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// unkept are the ends of entries that give calls up which are not kept yet.
type unkept struct {
	mu   sync.Mutex
	ends map[chan struct{}]string // their destinations; closed when the calls are kept
}

// begin says that calls are given up from now on, until done is called: then they are kept.
func (u *unkept) begin(destination string, given []tracking.Call) (done func()) {
	if len(given) == 0 {
		return func() {}
	}
	end := make(chan struct{})
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ends == nil {
		u.ends = map[chan struct{}]string{}
	}
	u.ends[end] = destination
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.ends, end)
		close(end)
	}
}

// await waits for those at a destination that have begun.
func (u *unkept) await(ctx context.Context, destination string) error {
	u.mu.Lock()
	ends := maps.Clone(u.ends)
	u.mu.Unlock()
	for end, at := range ends {
		if at != destination {
			continue
		}
		select {
		case <-end:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
