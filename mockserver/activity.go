package mockserver

import (
	"context"
	"sync"
	"time"
)

// An activity counts what goes on, for a clock that is moved by hand: it moves on
// only where all is at rest.
type activity struct {
	poke func() // is called without the lock when something may have come to rest

	mu     sync.Mutex              // guards what follows
	active int                     // things that go on
	asleep map[*time.Time]struct{} // those that wait for the clock, and until when
}

// begin counts one more thing that goes on, and end one less.
func (a *activity) begin() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.active++
}

func (a *activity) end() {
	a.mu.Lock()
	a.active--
	a.mu.Unlock()
	a.poke()
}

// sleep lets something that goes on wait for a time to pass. It returns ctx's
// error if that ends before.
func (a *activity) sleep(ctx context.Context, clock Clock, d time.Duration) error {
	until := clock.Now().Add(d)
	timer, stop := wakeAt(clock, until)
	defer stop()
	a.mu.Lock()
	if a.asleep == nil {
		a.asleep = map[*time.Time]struct{}{}
	}
	a.asleep[&until] = struct{}{}
	a.active--
	a.mu.Unlock()
	a.poke()
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.active++
		delete(a.asleep, &until)
	}()
	select {
	case <-timer:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// hang lets something that goes on wait for ctx to end.
func (a *activity) hang(ctx context.Context) {
	a.mu.Lock()
	a.active--
	a.mu.Unlock()
	a.poke()
	<-ctx.Done()
	a.begin()
}

// rest tells whether all that goes on waits for the clock to pass now, and until
// when at most: the zero time is for ever. The lock is held.
func (a *activity) rest(now time.Time) (until time.Time, atRest bool) {
	for at := range a.asleep {
		if !now.Before(*at) {
			return time.Time{}, false
		}
		until = earlier(until, *at)
	}
	return until, a.active == 0
}

// earlier returns the earlier of two times, of which a zero one does not count.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
