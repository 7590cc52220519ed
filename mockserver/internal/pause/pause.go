// Package pause waits for a time, for a channel, for what goes on, or until a context ends.
package pause

import (
	"context"
	"time"
)

// For waits for d. It returns nil, or why ctx ended before.
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

// Until waits until a time, unless it is the zero time, until wake is closed or has a
// value, or until ctx ends.
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
