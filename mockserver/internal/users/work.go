package users

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
)

// Failed work is retried after workFirst, and then with doubled delays up to workMax.
const (
	workFirst = time.Second
	workMax   = 30 * time.Second
)

// Key prefixes of the kinds of work. Work on outcomes does not need a record.
const (
	computationPrefix = "computation"
	deletionPrefix    = "deletion"
	outcomesPrefix    = "outcomes"
)

// errNoWork stops the work on a record for now: no work is left, or another process has the
// lease.
var errNoWork = errors.New("mockserver: no work")

// workers runs a goroutine for each record with work. It ends if another process has the lease.
type workers struct {
	log *slog.Logger
	// step does a part of the work on a record. It returns errNoWork if no work is left.
	step func(ctx context.Context, key string) error
	// waiting returns the keys of the records with work.
	waiting func(ctx context.Context) ([]string, error)

	ctx    context.Context // canceled when no more work may begin
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex      // guards running; no work begins after ctx is canceled
	running map[string]bool // keys with a running goroutine; true if kicked again
}

func newWorkers(log *slog.Logger, step func(context.Context, string) error, waiting func(context.Context) ([]string, error)) *workers {
	w := &workers{log: log, step: step, waiting: waiting, running: map[string]bool{}}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

func (w *workers) stopping() bool { return w.ctx.Err() != nil }

// start starts the work that earlier processes left. It regularly checks for work that other
// processes left.
func (w *workers) start() {
	w.wg.Go(func() {
		for {
			keys, err := w.waiting(w.ctx)
			if err != nil && !w.stopping() {
				w.log.Error("could not resume the work stored in the state", "error", err)
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

// kick starts the work on a record. If work on it is already running, kick makes it check for more
// work before it ends.
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

// run works on a record until no work is left.
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
			w.log.Error("background work failed; trying again", "record", key, "in", wait, "error", err)
			if pause.For(w.ctx, wait) != nil {
				return
			}
			wait = min(2*wait, workMax)
		}
	}
}

// done ends the work on a record, unless it was kicked again.
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

// stop interrupts all work and waits for its end. It may be called again.
func (w *workers) stop() {
	w.mu.Lock() // ensures that kick does not begin work after Wait
	w.cancel()
	w.mu.Unlock()
	w.wg.Wait()
}
