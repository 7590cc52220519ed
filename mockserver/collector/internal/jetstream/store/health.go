package store

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
)

// A health reports whether the store can be written to.
type health struct {
	mu     sync.Mutex // guards what follows
	err    error      // why not; nil while it can
	ctx    context.Context
	cancel context.CancelCauseFunc // ends ctx when it no longer can
	risen  chan struct{}           // made by fall; closed by rise
}

// Writable returns a context that lasts while the store can be written to.
func (h *health) Writable() (context.Context, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ctx, h.err
}

// await waits until the store can be written to, or ctx ends.
func (h *health) await(ctx context.Context) {
	for ctx.Err() == nil {
		h.mu.Lock()
		err, risen := h.err, h.risen
		h.mu.Unlock()
		if err == nil {
			return
		}
		select {
		case <-risen:
		case <-ctx.Done():
		}
	}
}

// storePause is how long the store is left alone after it did not do what it was asked
// for.
const storePause = 100 * time.Millisecond

// Up says that the store can be written to.
func (h *health) Up() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err = nil
	h.ctx, h.cancel = context.WithCancelCause(context.Background())
	if h.risen != nil {
		close(h.risen)
		h.risen = nil
	}
}

// Down says that it cannot, and why, and ends what is under way.
func (h *health) Down(cause error) {
	err := fmt.Errorf("%w: %w", journal.ErrUnwritable, cause)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err = err
	if h.risen == nil {
		h.risen = make(chan struct{})
	}
	if h.cancel != nil {
		h.cancel(err)
	}
}
