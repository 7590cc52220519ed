package users

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
)

// clean deletes what earlier runs of this process began to store and did not
// queue, and what is left of computations that were forgotten.
func (s *syncs) clean(ctx context.Context, started time.Time) error {
	ids := map[string]bool{}
	for _, prefix := range []string{"segment", recordPrefix} {
		keys, err := state.Keys(ctx, s.state, prefix)
		if err != nil {
			return err
		}
		for _, key := range keys {
			id, _, _ := strings.Cut(key, ".")
			ids[id] = true
		}
	}
	for id := range ids {
		err := s.sweep(ctx, id, func(u upload) bool {
			return u.Instance == s.service.config.Instance && u.At.Before(started)
		})
		if errors.Is(err, state.ErrNotFound) {
			err = s.state.Delete(ctx, "segment."+id)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sweep deletes the stored lists of a computation that belong to nothing: those
// of syncs that are over, and uploads that were given up.
func (s *syncs) sweep(ctx context.Context, id string, givenUp func(upload) bool) error {
	// The keys before the record: what is uploaded later is in the record then.
	keys, err := s.state.Keys(ctx, "segment."+id)
	if err != nil {
		return err
	}
	r, err := s.load(ctx, id)
	if err == nil && slices.ContainsFunc(r.Uploads, givenUp) {
		r, err = s.update(ctx, id, func(r *computationRecord) error {
			if r.ID == "" {
				return state.ErrNotFound
			}
			r.Uploads = slices.DeleteFunc(r.Uploads, givenUp)
			return nil
		})
	}
	if err != nil {
		return err
	}
	kept := r.uploads()
	for _, key := range keys {
		upload, _, _ := strings.Cut(strings.TrimPrefix(key, "segment."+id+"."), ".")
		if kept[upload] {
			continue
		}
		kept[upload] = true // deleted once
		if err := s.state.Delete(ctx, segmentsKey(id, upload)); err != nil {
			return err
		}
	}
	return nil
}
