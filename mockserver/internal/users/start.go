package users

import (
	"context"
	"errors"
	"strings"
	"time"
)

// New returns a service that does nothing before Start.
func New(config Config) *Service {
	if config.BatchCalls == 0 {
		config.BatchCalls = defaultBatchCalls
	}
	u := &Service{
		config: config, state: config.State, started: time.Now(),
		sorts: make(chan struct{}, sortsAtOnce), outcomes: outcomes{byKey: map[string]map[notification]deletionEnd{}}, completed: map[string]time.Time{},
	}
	u.work = newWorkers(config.Logger, u.step, u.waiting)
	return u
}

// Start takes up what earlier processes left.
func (u *Service) Start() { u.work.start() }

// Drain lets nothing more begin. Stop follows.
func (u *Service) Drain() { u.work.cancel() }

// Stop ends the work, without waiting for what is under way at others. More calls
// may be delivered until then; EndOutcomes follows once none are.
func (u *Service) Stop() { u.work.stop() }

// step works on what a key stands for.
func (u *Service) step(ctx context.Context, key string) error {
	kind, id, _ := strings.Cut(key, ".")
	switch kind {
	case computationPrefix:
		return u.workOnSync(ctx, id)
	case deletionPrefix:
		return u.workOnDeletion(ctx, id)
	default:
		return u.workOnOutcomes(ctx, id)
	}
}

// waiting returns the keys of the records that there is work on. Once in a while it
// also deletes what was given up.
func (u *Service) waiting(ctx context.Context) ([]string, error) {
	var cleaning error
	if now := time.Now(); now.Sub(u.cleaned) >= uploadAge {
		if cleaning = u.clean(ctx); cleaning == nil {
			u.cleaned = now
		}
	}
	computations, err := u.computationsWaiting(ctx)
	deletions, other := u.deletionsWaiting(ctx)
	return append(computations, deletions...), errors.Join(cleaning, err, other)
}
