package users

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// outcomesPause is how long the Service collects outcomes before it stores them.
const outcomesPause = 100 * time.Millisecond

// Observe implements event.Observer. It collects the outcomes of notifications.
func (u *Service) Observe(event event.Event) {
	e, ok := event.(tracking.Ended)
	if !ok {
		return
	}
	if key, ours := keyOfMessage(e.CallID); ours {
		u.outcomes.add(key, e)
		u.work.kick(outcomesPrefix + "." + key)
	}
}

// EndOutcomes stores the remaining outcomes. Call it after Stop and the last delivery.
func (u *Service) EndOutcomes() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, key := range u.outcomes.keys() {
		if err := u.storeOutcomes(ctx, key); err != nil {
			u.config.Logger.Error("could not store the outcomes of a deletion request; its notifications will be sent again", "error", err)
		}
	}
}

// workOnOutcomes stores the outcomes of a request.
func (u *Service) workOnOutcomes(ctx context.Context, key string) error {
	if err := pause.For(ctx, outcomesPause); err != nil {
		return err
	}
	if err := u.storeOutcomes(ctx, key); err != nil {
		return fmt.Errorf("could not store the outcomes of a deletion request: %w", err)
	}
	return errNoWork
}

// storeOutcomes stores the collected outcomes of a request.
func (u *Service) storeOutcomes(ctx context.Context, key string) error {
	ended := u.outcomes.of(key)
	err := u.writeOutcomes(ctx, key, ended)
	if err != nil && !errors.Is(err, state.ErrNotFound) { // ErrNotFound means that the request was deleted or never existed
		return err
	}
	u.outcomes.stored(key, ended)
	return nil
}

// writeOutcomes stores outcomes in the chunks of a request, and completes the request if all its
// notifications have ended.
func (u *Service) writeOutcomes(ctx context.Context, key string, ended map[notification]deletionEnd) error {
	r, err := u.loadDeletion(ctx, key)
	if err != nil {
		return err
	}
	byChunk := map[int][]notification{}
	for n := range ended {
		if user, _, ok := r.find(key, n); ok {
			byChunk[user/r.Chunk] = append(byChunk[user/r.Chunk], n)
		}
	}
	perhaps := false // whether all notifications may have ended
	for _, n := range slices.Sorted(maps.Keys(byChunk)) {
		chunk, err := u.updateChunk(ctx, key, r, n, func(k *deletionChunk) {
			for _, n := range byChunk[n] {
				user, target, _ := r.find(key, n)
				k.Ends[target][user%r.Chunk] = ended[n]
			}
		})
		if errors.Is(err, state.ErrNotFound) {
			perhaps = true // the chunk is lost
			continue
		}
		if err != nil {
			return err
		}
		perhaps = perhaps || chunk.ended()
	}
	if perhaps {
		_, _, err = u.complete(ctx, key)
	}
	return err
}
