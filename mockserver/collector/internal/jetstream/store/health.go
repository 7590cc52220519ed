package store

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
)

// health tracks whether the store can be written to.
type health struct {
	mu        sync.Mutex // guards the fields below
	err       error      // error if the store cannot be written to, or nil
	ctx       context.Context
	cancel    context.CancelCauseFunc // cancels ctx when the store can no longer be written to
	recovered chan struct{}           // created by Down; closed by Up
}

// Writable returns a context that is canceled when the store can no longer be written to.
func (h *health) Writable() (context.Context, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ctx, h.err
}

// await waits until the store can be written to or ctx ends.
func (h *health) await(ctx context.Context) {
	for ctx.Err() == nil {
		h.mu.Lock()
		err, recovered := h.err, h.recovered
		h.mu.Unlock()
		if err == nil {
			return
		}
		select {
		case <-recovered:
		case <-ctx.Done():
		}
	}
}

// storePause is the delay before a request is retried.
const storePause = 100 * time.Millisecond

// Up marks the store as writable.
func (h *health) Up() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err = nil
	h.ctx, h.cancel = context.WithCancelCause(context.Background())
	if h.recovered != nil {
		close(h.recovered)
		h.recovered = nil
	}
}

// Down marks the store as not writable, and cancels requests with a cause.
func (h *health) Down(cause error) {
	err := fmt.Errorf("%w: %w", journal.ErrUnwritable, cause)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err = err
	if h.recovered == nil {
		h.recovered = make(chan struct{})
	}
	if h.cancel != nil {
		h.cancel(err)
	}
}
