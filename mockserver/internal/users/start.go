package users

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
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

// clean deletes the uploads that were given up.
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

// cleanUploads deletes those that were given up and that the record of their ID does not
// name.
func (u *Service) cleanUploads(ctx context.Context, prefix string, named func(id string) ([]string, error)) error {
	keys, err := state.Keys(ctx, u.state, prefix)
	if err != nil {
		return err
	}
	givenUp := map[[2]string]bool{} // by the ID of the record and the name of the upload
	for _, key := range keys {
		if parts := strings.SplitN(key, ".", 3); len(parts) == 3 && u.givenUp(parts[1]) {
			givenUp[[2]string(parts)] = true
		}
	}
	for upload := range givenUp {
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
