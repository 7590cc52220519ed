package users

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
)

// outcomesPause is for how long outcomes are gathered before they are stored.
const outcomesPause = 100 * time.Millisecond

// follow stores outcomes, until EndOutcomes.
func (u *Service) follow() {
	for {
		select {
		case <-u.outcomes.wake:
			if pause.For(u.work.ctx, outcomesPause) != nil {
				continue // EndOutcomes comes
			}
			if err := u.storeOutcomes(u.work.ctx); err != nil && !u.work.stopping() {
				u.config.Logger.Error("outcomes of deletion requests could not be stored yet", "error", err)
				_ = pause.For(u.work.ctx, workFirst) // EndOutcomes comes, if it fails
				u.outcomes.rouse()
			}
		case <-u.outcomes.done:
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			if err := u.storeOutcomes(ctx); err != nil {
				u.config.Logger.Error("outcomes of deletion requests could not be stored; their notifications will be sent again", "error", err)
			}
			return
		}
	}
}

// storeOutcomes brings the outcomes that have come to their requests. Those that it
// cannot store wait for the next time.
func (u *Service) storeOutcomes(ctx context.Context) error {
	var errs []error
	for key, ended := range u.outcomes.byKey() {
		if err := u.storeOutcomesOf(ctx, key, ended); err != nil {
			errs = append(errs, err)
			continue
		}
		u.outcomes.forget(ended)
	}
	return errors.Join(errs...)
}

// storeOutcomesOf stores outcomes of one request.
func (u *Service) storeOutcomesOf(ctx context.Context, key string, ended map[notification]deletionEnd) error {
	r, err := u.loadDeletion(ctx, key)
	byChunk := map[int][]notification{}
	for n := range ended {
		if user, _, ok := r.find(key, n); ok {
			byChunk[user/r.Chunk] = append(byChunk[user/r.Chunk], n)
		}
	}
	perhaps := false // all may have ended
	for _, n := range slices.Sorted(maps.Keys(byChunk)) {
		if err != nil {
			break
		}
		var chunk deletionChunk
		chunk, err = u.updateChunk(ctx, key, r, n, func(k *deletionChunk) {
			for _, n := range byChunk[n] {
				user, target, _ := r.find(key, n)
				k.Ends[target][user%r.Chunk] = ended[n]
			}
		})
		perhaps = perhaps || chunk.ended()
	}
	if err == nil && perhaps {
		_, _, err = u.complete(ctx, key)
	}
	if errors.Is(err, state.ErrNotFound) {
		return nil // not one of ours, or forgotten
	}
	return err
}
