package users

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
)

// Work in the background is done by one goroutine for each thing that there is
// to do, and by one process of those that share the State: the one that has its
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

var (
	// errNoWork ends the work on a thing: there is nothing more to do now.
	errNoWork = errors.New("mockserver: no work")
	// errElsewhere says that another process has the lease.
	errElsewhere = errors.New("mockserver: another process is at work")
)

// A workLease is the right to work on a thing, in its record.
type workLease struct {
	Instance string    `json:"instance"`
	Until    time.Time `json:"until"`
}

// take gives the lease to an instance, or keeps it there, unless another has it.
func (l *workLease) take(instance string, now time.Time) error {
	if l.Instance != "" && l.Instance != instance && now.Before(l.Until) {
		return errElsewhere
	}
	*l = workLease{instance, now.Add(leaseTime).UTC()}
	return nil
}

// drop ends an instance's lease.
func (l *workLease) drop(instance string) {
	if l.Instance == instance {
		*l = workLease{}
	}
}

// workers work on things by their IDs.
type workers struct {
	log *slog.Logger
	// step works on a thing until there is no more to do, which is errNoWork.
	step func(ctx context.Context, id string) error
	// waiting returns the things that there is work on.
	waiting func(ctx context.Context) ([]string, error)

	ctx    context.Context // ends when stop is called
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex      // guards what follows
	stopped bool            // no more may begin
	running map[string]bool // by ID; true: was kicked again
}

// newWorkers returns workers that stop when ctx ends.
func newWorkers(ctx context.Context, log *slog.Logger, step func(context.Context, string) error, waiting func(context.Context) ([]string, error)) *workers {
	w := &workers{log: log, step: step, waiting: waiting, running: map[string]bool{}}
	w.ctx, w.cancel = context.WithCancel(ctx)
	return w
}

// start takes up what earlier processes left, after clean, and from time to time
// what others leave.
func (w *workers) start(clean func(ctx context.Context) error) {
	w.wg.Go(func() {
		if err := clean(w.ctx); err != nil && w.ctx.Err() == nil {
			w.log.Error("what earlier processes left of the state could not be cleaned up", "error", err)
		}
		for {
			ids, err := w.waiting(w.ctx)
			if err != nil && w.ctx.Err() == nil {
				w.log.Error("the state cannot be read", "error", err)
			}
			for _, id := range ids {
				w.kick(id)
			}
			if pause.For(w.ctx, leaseTime) != nil {
				return
			}
		}
	})
}

// kick makes sure that a thing is worked on.
func (w *workers) kick(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	if _, ok := w.running[id]; ok {
		w.running[id] = true
		return
	}
	w.running[id] = false
	w.wg.Go(func() { w.run(id) })
}

// run works on a thing until there is no more to do.
func (w *workers) run(id string) {
	wait := workFirst
	for {
		switch err := w.step(w.ctx, id); {
		case w.ctx.Err() != nil:
			return
		case err == nil:
			wait = workFirst
		case errors.Is(err, errNoWork), errors.Is(err, errElsewhere):
			if w.done(id) {
				return
			}
		default:
			w.log.Error("work in the background failed; it will be tried again", "id", id, "in", wait, "error", err)
			if pause.For(w.ctx, wait) != nil {
				return
			}
			wait = min(2*wait, workMax)
		}
	}
}

// done ends the work on a thing, unless it was kicked meanwhile.
func (w *workers) done(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running[id] {
		w.running[id] = false
		return false
	}
	delete(w.running, id)
	return true
}

// stop breaks off all work and waits for its end. It may be called again.
func (w *workers) stop() {
	w.mu.Lock()
	w.stopped = true
	w.mu.Unlock()
	w.cancel()
	w.wg.Wait()
}

// A notifier wakes those who wait for a change.
type notifier struct {
	mu      sync.Mutex // guards what follows
	changed chan struct{}
}

// wait returns a channel that is closed at the next change.
func (n *notifier) wait() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.changed == nil {
		n.changed = make(chan struct{})
	}
	return n.changed
}

func (n *notifier) tell() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.changed != nil {
		close(n.changed)
		n.changed = nil
	}
}

// await waits until done is true or fails: it looks again after each change here,
// and from time to time, since another process may be at work.
func (n *notifier) await(ctx context.Context, done func() (bool, error)) error {
	for {
		changed := n.wait()
		if ok, err := done(); ok || err != nil {
			return err
		}
		elsewhere := time.NewTimer(time.Second)
		select {
		case <-changed:
		case <-elsewhere.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		elsewhere.Stop()
	}
}
