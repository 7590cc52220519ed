package ingest

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// store stores the calls of a batch that are not duplicates. memory is the size of the memory that
// the batch uses.
func (h *Handler) store(ctx context.Context, b event.Batch, memory int) *requestError {
	fresh, repeated, reserved, err := h.config.Dedup.reserve(ctx, b)
	if err != nil {
		return &requestError{status: http.StatusServiceUnavailable, code: tracking.CodeUnavailable, retryAfter: storeRetryAfter,
			message: "another request is storing the same calls; send again"}
	}
	if 2*fresh.Size()+maxSpareBytes < memory {
		fresh.Calls = copyCalls(fresh.Calls)
	}
	if err := h.append(ctx, fresh, reserved); err != nil {
		return h.storeFailed(fresh, err)
	}
	if len(repeated.Calls) > 0 {
		h.config.Observer.Observe(event.Repeated{Batch: repeated})
	}
	return nil
}

// append appends the calls of a reservation to the journal, and settles the reservation. It
// ignores the cancellation of ctx: a sender that disconnects will send its calls again, and they
// must then be recognized as duplicates.
func (h *Handler) append(ctx context.Context, b event.Batch, reserved *reservation) error {
	stored := 0
	defer func() {
		if reserved != nil {
			h.settle(b, reserved, stored)
		}
	}()
	if len(b.Calls) == 0 {
		return nil
	}
	err := h.config.Journal.Append(context.WithoutCancel(ctx), b)
	var partly *journal.AppendError
	switch {
	case err == nil:
		stored = len(b.Calls)
	case errors.As(err, &partly):
		unknown := reserved
		reserved = nil
		h.config.Dedup.markUncertain(unknown)
		go func() { h.settle(b, unknown, partly.Stored()) }() // returns at the latest when the journal closes
	}
	return err
}

// settle ends a reservation. stored is the number of its calls that are stored; they come first.
func (h *Handler) settle(b event.Batch, reserved *reservation, stored int) {
	h.config.Dedup.settle(reserved, stored)
	if b.Calls = b.Calls[:stored]; stored > 0 {
		h.config.Observer.Observe(event.Accepted{Batch: b})
	}
}

// maxSpareBytes is the memory in bytes that a batch may use in addition to twice its size.
const maxSpareBytes = 512

// copyCalls copies calls to new memory. Otherwise a stored call would retain the whole body,
// including white space, rejected calls and duplicates.
func copyCalls(calls []tracking.Call) []tracking.Call {
	calls = slices.Clone(calls)
	bodies := make([]byte, 0, event.Batch{Calls: calls}.Size())
	for i := range calls {
		start := len(bodies)
		bodies = append(bodies, calls[i].Body...)
		calls[i].Body = bodies[start:len(bodies):len(bodies)]
	}
	return calls
}

const (
	// storeRetryAfter is the Retry-After of the response if calls could not be stored.
	storeRetryAfter = 5 * time.Second
	// refusalLogInterval is the minimum interval between messages about failed appends. When
	// the disk is full, every request fails.
	refusalLogInterval = time.Second
)

// storeFailed refuses a batch that the journal did not accept.
func (h *Handler) storeFailed(b event.Batch, err error) *requestError {
	refused := &requestError{status: http.StatusServiceUnavailable, code: tracking.CodeUnavailable, retryAfter: storeRetryAfter,
		message: "the calls could not be stored; send again later"}
	level, what := slog.LevelError, "a batch was refused: it could not be stored"
	if errors.Is(err, journal.ErrFull) {
		refused.status, refused.code, refused.message = http.StatusTooManyRequests, tracking.CodeQueueFull, "the queue is full; send again later"
		level, what = slog.LevelWarn, "a batch was refused: the journal is full"
	}
	if ok, suppressed := h.refusing.Allow(time.Now(), refusalLogInterval, 1); ok {
		h.config.Log.Log(context.Background(), level, what, "source", b.Source, "calls", len(b.Calls), "error", err, "refused since the last message", suppressed)
	}
	return refused
}
