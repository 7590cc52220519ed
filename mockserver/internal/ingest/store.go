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

// store stores a batch, without the calls that were stored before. held is how many
// bytes of memory it holds.
func (h *Handler) store(ctx context.Context, b event.Batch, held int) *requestError {
	fresh, repeated, reserved, err := h.config.Dedup.reserve(ctx, b)
	if err != nil {
		return &requestError{status: http.StatusServiceUnavailable, code: tracking.CodeUnavailable, retryAfter: storeRetryAfter,
			message: "another request has brought the same calls, and they are not stored yet; send again"}
	}
	if 2*fresh.Size()+maxSpareBytes < held {
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

// append appends the calls of a reservation to the journal and settles it. It does not
// end with ctx: a sender that no longer waits sends its calls again, and they must be
// known by then.
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
		go func() { h.settle(b, unknown, partly.Stored()) }() // ends with the journal
	}
	return err
}

// settle ends a reservation, of whose calls the first are stored, so many of them.
func (h *Handler) settle(b event.Batch, reserved *reservation, stored int) {
	h.config.Dedup.settle(reserved, stored)
	if b.Calls = b.Calls[:stored]; stored > 0 {
		h.config.Observer.Observe(event.Accepted{Batch: b, Keys: reserved.hashes[:stored]})
	}
}

// maxSpareBytes is how much memory a batch may hold beyond twice what it needs.
const maxSpareBytes = 512

// copyCalls moves calls to memory of their own. A call that is kept would otherwise
// keep all that came with it: white space, wrong calls, calls that came again.
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
	// storeRetryAfter is when a sender should try again whose calls were not stored.
	storeRetryAfter = 5 * time.Second
	// refusalLogInterval is how often the log says that batches could not be stored: while
	// the disk is full, each request is one.
	refusalLogInterval = time.Second
)

// storeFailed refuses a batch that the journal did not take.
func (h *Handler) storeFailed(b event.Batch, err error) *requestError {
	refused := &requestError{status: http.StatusServiceUnavailable, code: tracking.CodeUnavailable, retryAfter: storeRetryAfter,
		message: "the calls could not be stored; send again later"}
	level, what := slog.LevelError, "a batch was refused: it could not be stored"
	if errors.Is(err, journal.ErrFull) {
		refused.status, refused.code, refused.message = http.StatusTooManyRequests, tracking.CodeQueueFull, "the queue is full; send again later"
		level, what = slog.LevelWarn, "a batch was refused: the journal is full"
	}
	if ok, suppressed := h.refusing.Allow(time.Now(), refusalLogInterval, 1); ok {
		h.config.Log.Log(context.Background(), level, what, "source", b.Source, "calls", len(b.Calls), "error", err, "others since the last line", suppressed)
	}
	return refused
}
