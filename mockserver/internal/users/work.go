package users

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
)

// Work in the background is done by one goroutine for each record that there is
// work on, and by one process of those that share the State: the one that has its
// lease.
const (
	// leaseTime is how long a process may be silent before another takes over. A
	// process that comes back under its own name goes on at once.
	leaseTime = 30 * time.Second
	// leaseRenewal is how often it says that it is at work.
	leaseRenewal = 5 * time.Second
	// Work that failed is tried again after workFirst, and then after twice as
	// long each time, up to workMax.
	workFirst = time.Second
	workMax   = 30 * time.Second
)

// The kinds of work, as the keys of records begin. That on outcomes has no record of its own.
const (
	computationPrefix = "computation"
	deletionPrefix    = "deletion"
	outcomesPrefix    = "outcomes"
)

// errNoWork ends the work on a record: there is nothing more to do now, or another process
// does it.
var errNoWork = errors.New("mockserver: no work")

// A claim is what a record says of who works on it.
type claim struct {
	// Secret goes into the messageIds, so that no sender can guess them: a call
	// with such an ID would keep ours from being taken.
	Secret string `json:"secret"`
	// Instance is the process that has the lease, if any, and Until when that runs out.
	Instance string    `json:"instance,omitempty"`
	Until    time.Time `json:"until,omitzero"`
}

func (c *claim) claimed() *claim { return c }

// take gives the lease to an instance, or keeps it there, unless another has it.
func (c *claim) take(instance string) error {
	now := time.Now()
	if c.Instance != "" && c.Instance != instance && now.Before(c.Until) {
		return errNoWork
	}
	c.Instance, c.Until = instance, now.Add(leaseTime).UTC()
	return nil
}

// renew keeps a lease, unless another instance has taken it since, or the record is
// another: the one before was forgotten.
func (c *claim) renew(taken claim) error {
	if c.Secret != taken.Secret || c.Instance != taken.Instance {
		return errNoWork
	}
	return c.take(taken.Instance)
}

// end lets any instance take the lease.
func (c *claim) end() { c.Instance, c.Until = "", time.Time{} }

// workers work on records by their keys.
type workers struct {
	log *slog.Logger
	// step works on a record until there is no more to do, which is errNoWork.
	step func(ctx context.Context, key string) error
	// waiting returns the records that there is work on.
	waiting func(ctx context.Context) ([]string, error)

	ctx    context.Context // ends when no more is to begin
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex      // guards running, and that nothing begins once ctx has ended
	running map[string]bool // by key; true: was kicked again
}

func newWorkers(log *slog.Logger, step func(context.Context, string) error, waiting func(context.Context) ([]string, error)) *workers {
	w := &workers{log: log, step: step, waiting: waiting, running: map[string]bool{}}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

func (w *workers) stopping() bool { return w.ctx.Err() != nil }

// start takes up what earlier processes left, and from time to time what others leave.
func (w *workers) start() {
	w.wg.Go(func() {
		for {
			keys, err := w.waiting(w.ctx)
			if err != nil && !w.stopping() {
				w.log.Error("what was left in the state could not be taken up", "error", err)
			}
			for _, key := range keys {
				w.kick(key)
			}
			if pause.For(w.ctx, leaseTime) != nil {
				return
			}
		}
	})
}

// kick makes sure that a record is worked on.
func (w *workers) kick(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopping() {
		return
	}
	_, running := w.running[key]
	w.running[key] = running
	if !running {
		w.wg.Go(func() { w.run(key) })
	}
}

// run works on a record until there is no more to do.
func (w *workers) run(key string) {
	wait := workFirst
	for {
		switch err := w.step(w.ctx, key); {
		case w.stopping():
			return
		case err == nil:
			wait = workFirst
		case errors.Is(err, errNoWork):
			if w.done(key) {
				return
			}
		default:
			w.log.Error("work in the background failed; it will be tried again", "record", key, "in", wait, "error", err)
			if pause.For(w.ctx, wait) != nil {
				return
			}
			wait = min(2*wait, workMax)
		}
	}
}

// done ends the work on a record, unless it was kicked meanwhile.
func (w *workers) done(key string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running[key] {
		w.running[key] = false
		return false
	}
	delete(w.running, key)
	return true
}

// stop breaks off all work and waits for its end. It may be called again.
func (w *workers) stop() {
	w.mu.Lock() // what kick has let begin is waited for
	w.cancel()
	w.mu.Unlock()
	w.wg.Wait()
}
