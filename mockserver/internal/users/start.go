package users

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
)

// New returns a Service. Call Start to begin the background work.
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

// Start starts the background work, including work that earlier processes did not finish.
func (u *Service) Start() { u.work.start() }

// Drain lets no new background work begin. Call Stop afterwards.
func (u *Service) Drain() { u.work.cancel() }

// Stop interrupts the background work and waits for its end. Deliveries may still end afterwards;
// call EndOutcomes after the last one.
func (u *Service) Stop() { u.work.stop() }

// step does a part of the work for a key.
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

// waiting returns the keys of the records with work. It also deletes abandoned uploads, at most
// once per uploadAge.
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

// clean deletes abandoned uploads and expired names.
func (u *Service) clean(ctx context.Context) error {
	lists := u.cleanUploads(ctx, segmentPrefix, func(id string) ([]string, error) {
		r, err := u.loadComputation(ctx, id)
		var uploads []string
		for _, list := range r.lists() {
			uploads = append(uploads, list.Upload)
		}
		return uploads, err
	})
	chunks := u.cleanUploads(ctx, chunkPrefix, func(key string) ([]string, error) {
		r, err := u.loadDeletion(ctx, key)
		return []string{r.Upload}, err
	})
	names := lostRecords(ctx, u, deletionPrefix, func(key string, d Deletion) error {
		if time.Since(d.RequestedAt) > DeletionKept {
			return u.deleteNamed(ctx, deletionKey(key))
		}
		return nil
	})
	return errors.Join(lists, chunks, names)
}

// cleanUploads deletes abandoned uploads, unless their record still refers to them.
func (u *Service) cleanUploads(ctx context.Context, prefix string, named func(id string) ([]string, error)) error {
	keys, err := state.Keys(ctx, u.state, prefix)
	if err != nil {
		return err
	}
	abandoned := map[[2]string]bool{} // keys are pairs of record ID and upload name
	for _, key := range keys {
		if parts := strings.SplitN(key, ".", 3); len(parts) == 3 && u.abandoned(parts[1]) {
			abandoned[[2]string(parts)] = true
		}
	}
	for upload := range abandoned {
		names, err := named(upload[0])
		if err != nil && !errors.Is(err, state.ErrNotFound) {
			return err
		}
		if slices.Contains(names, upload[1]) {
			continue
		}
		if err := u.state.Delete(ctx, uploadKey(prefix, upload[0], upload[1])); err != nil {
			return err
		}
	}
	return nil
}
