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
	timer, stop := clock.After(d)
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

// resting tells whether all that goes on waits for the clock to pass now. The
// lock is held.
func (a *activity) resting(now time.Time) bool {
	for until := range a.asleep {
		if !now.Before(*until) {
			return false
		}
	}
	return a.active == 0
}
