// Package pause waits for a time, a channel, a lock, the end of operations, or the cancellation of
// a context. It also limits the rate of log messages.
package pause

import (
	"context"
	"time"
)

// For waits for d and returns nil. If ctx is canceled first, it returns the cause.
func For(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Until waits until at, until wake is closed or has a value, or until ctx is canceled. A zero at means
// no time limit.
func Until(ctx context.Context, at time.Time, wake <-chan struct{}) {
	var due <-chan time.Time
	if !at.IsZero() {
		timer := time.NewTimer(time.Until(at))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-due:
	case <-wake:
	case <-ctx.Done():
	}
}
