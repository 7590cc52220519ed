package journal

import (
	"context"
	"fmt"
	"sync"
)

// A health tells whether the store can be written to.
type health struct {
	mu     sync.Mutex // guards what follows
	err    error      // why not; nil while it can
	ctx    context.Context
	cancel context.CancelCauseFunc // ends ctx when it no longer can
}

// up returns a context that lasts while the store can be written to.
func (h *health) up() (context.Context, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ctx, h.err
}

// rise says that the store can be written to.
func (h *health) rise() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err = nil
	h.ctx, h.cancel = context.WithCancelCause(context.Background())
}

// fall says that it cannot, and why, and ends what is under way.
func (h *health) fall(cause error) {
	err := wrapStorage(fmt.Errorf("journal: the store cannot be written to: %w", cause))
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err = err
	if h.cancel != nil {
		h.cancel(err)
	}
}
