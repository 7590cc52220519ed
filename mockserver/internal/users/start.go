package users

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
)

// New returns a service that does nothing before Start.
func New(config Config) *Service {
	if config.BatchCalls == 0 {
		config.BatchCalls = defaultBatchCalls
	}
	u := &Service{
		config: config, state: config.State, started: time.Now(),
		sorts: make(chan struct{}, sortsAtOnce), outcomes: newOutcomes(), completed: map[string]time.Time{},
	}
	u.work = newWorkers(config.Logger, u.step, u.waiting)
	return u
}

// Start takes up what earlier processes left.
func (u *Service) Start() {
	u.outcomes.following.Go(u.follow)
	u.work.start()
}

// Drain lets nothing more begin. Stop follows.
func (u *Service) Drain() { u.work.cancel() }

// Stop ends the work, without waiting for what is under way at others. More calls
// may be delivered until then; EndOutcomes follows once none are.
func (u *Service) Stop() { u.work.stop() }

// EndOutcomes stores the outcomes of notifications that have come since. It is called
// once, after Stop and when no more deliveries end.
func (u *Service) EndOutcomes() {
	close(u.outcomes.done)
	u.outcomes.following.Wait()
}

// Observe implements event.Observer: it takes the outcomes of notifications.
func (u *Service) Observe(event event.Event) { u.outcomes.observe(event) }

// step works on the record under a key.
func (u *Service) step(ctx context.Context, key string) error {
	if id, ok := strings.CutPrefix(key, computationPrefix+"."); ok {
		return u.workOnSync(ctx, id)
	}
	return u.workOnDeletion(ctx, strings.TrimPrefix(key, deletionPrefix+"."))
}

// waiting returns the keys of the records that there is work on. Once in a while it
// also deletes what was given up.
func (u *Service) waiting(ctx context.Context) ([]string, error) {
	var failed error
	if time.Since(u.cleaned) >= uploadAge {
		u.cleaned = time.Now()
		failed = u.clean(ctx)
	}
	computations, err := u.computationsWaiting(ctx)
	deletions, err2 := u.deletionsWaiting(ctx)
	return append(computations, deletions...), errors.Join(failed, err, err2)
}
