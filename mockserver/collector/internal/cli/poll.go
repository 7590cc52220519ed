package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
)

const (
	// waitPause is the interval between polls of a collector.
	waitPause = 100 * time.Millisecond
	// grace is the additional time for the last response after a time limit.
	grace = 30 * time.Second
)

// poll calls done until it returns true or an error. If ctx ends first, the error says that work, such as
// a replay, continues.
func poll(ctx context.Context, work string, done func() (bool, error)) error {
	for {
		ok, err := done()
		if !ok && err == nil {
			err = pause.For(ctx, waitPause)
		}
		switch {
		case err != nil && ctx.Err() != nil:
			return fmt.Errorf("stopped waiting; %s continues in the collector", work)
		case ok || err != nil:
			return err
		}
	}
}

// pollFor is like poll, but also ends after limit, with the last error of done if there is one. It reports
// whether done returned true. The last call of done must end within grace after limit.
func pollFor(ctx context.Context, limit time.Duration, work string, done func(context.Context) (bool, error)) (bool, error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	calls, cancel := context.WithTimeout(ctx, limit+grace)
	defer cancel()
	var failed error // of done
	err := poll(limited, work, func() (isDone bool, err error) {
		isDone, failed = done(calls)
		return isDone, failed
	})
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return false, failed
	}
	return err == nil, err
}
