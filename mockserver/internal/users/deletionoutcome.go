package users

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/digest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// observe takes the outcomes of notifications.
func (d *deletions) observe(event event.Event) {
	e, ok := event.(tracking.Ended)
	if !ok || !strings.HasPrefix(e.CallID, deletionIDPrefix) {
		return
	}
	d.mu.Lock()
	d.outcomes[outcomeID{e.CallID, e.Destination}] = e
	d.mu.Unlock()
	select {
	case d.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// follow stores outcomes, until stop.
func (d *deletions) follow() {
	for {
		select {
		case <-d.wake:
			if pause.For(d.work.ctx, outcomesPause) != nil {
				continue // stop comes
			}
			if err := d.store(d.work.ctx); err != nil && d.work.ctx.Err() == nil {
				d.service.config.Logger.Error("outcomes of deletion requests could not be stored yet", "error", err)
				_ = pause.For(d.work.ctx, workFirst) // stop comes, if it fails
			}
		case <-d.done:
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			if err := d.store(ctx); err != nil {
				d.service.config.Logger.Error("outcomes of deletion requests could not be stored; their notifications will be sent again", "error", err)
			}
			return
		}
	}
}

// store brings the outcomes that have come to their requests. Those that it
// cannot store come again.
func (d *deletions) store(ctx context.Context) error {
	d.mu.Lock()
	outcomes := d.outcomes
	d.outcomes = map[outcomeID]tracking.Ended{}
	d.mu.Unlock()
	byKey := map[string][]tracking.Ended{}
	for _, e := range outcomes {
		if key, _, found := strings.Cut(strings.TrimPrefix(e.CallID, deletionIDPrefix), "-"); found && digest.Valid(key) {
			byKey[key] = append(byKey[key], e)
		}
	}
	var errs []error
	for key, ended := range byKey {
		if err := d.storeOf(ctx, key, ended); err != nil {
			errs = append(errs, err)
			d.giveBack(ended)
		}
	}
	return errors.Join(errs...)
}

// giveBack keeps outcomes that could not be stored, but for those that others
// have overtaken.
func (d *deletions) giveBack(ended []tracking.Ended) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range ended {
		id := outcomeID{e.CallID, e.Destination}
		if _, newer := d.outcomes[id]; !newer {
			d.outcomes[id] = e
		}
	}
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// storeOf stores outcomes of one request.
func (d *deletions) storeOf(ctx context.Context, key string, ended []tracking.Ended) error {
	r, err := d.load(ctx, key)
	if errors.Is(err, state.ErrNotFound) {
		return nil // not one of ours, or forgotten
	}
	if err != nil {
		return err
	}
	byChunk := map[int][]tracking.Ended{}
	for _, e := range ended {
		if user, _, ok := r.find(key, e); ok {
			byChunk[user/r.Chunk] = append(byChunk[user/r.Chunk], e)
		}
	}
	perhaps := false // all may have ended
	for _, n := range slices.Sorted(maps.Keys(byChunk)) {
		chunk, err := d.updateChunk(ctx, key, r, n, func(k *deletionChunk) {
			for _, e := range byChunk[n] {
				user, target, _ := r.find(key, e)
				k.Ends[target][user-n*r.Chunk] = newDeletionEnd(e)
			}
		})
		if errors.Is(err, state.ErrNotFound) {
			return nil // it is being forgotten
		}
		if err != nil {
			return err
		}
		perhaps = perhaps || chunk.ended()
	}
	if perhaps {
		_, err = d.complete(ctx, key)
	}
	d.changed.tell()
	return err
}
