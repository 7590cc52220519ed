package users

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/roster"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
)

// erase takes the users of a deletion request out of all lists of some sources,
// after the syncs that are queued. It may be called again for the same request.
func (s *syncs) erase(ctx context.Context, sources []string, request string, users roster.Seq) error {
	ids, err := s.ids(ctx)
	if err != nil {
		return err
	}
	for _, id := range ids {
		r, err := s.load(ctx, id)
		if errors.Is(err, state.ErrNotFound) {
			continue // forgotten meanwhile
		}
		if err != nil {
			return err
		}
		if !slices.Contains(sources, r.Source) || r.struck(request) {
			continue
		}
		if any, err := s.holdsAny(ctx, r, users); err != nil || !any {
			if err != nil {
				return err
			}
			continue
		}
		list, err := s.upload(ctx, r, users)
		if err == nil {
			_, err = s.enqueue(ctx, id, list, Sync{Deletion: request})
		}
		if err != nil && !errors.Is(err, errForgotten) {
			return err
		}
	}
	return nil
}

// holdsAny reports whether one of some users is in the current list, or in one that
// is queued.
func (s *syncs) holdsAny(ctx context.Context, r computationRecord, users roster.Seq) (bool, error) {
	lists := []storedList{r.Current}
	for _, q := range r.Queue {
		if q.Deletion == "" {
			lists = append(lists, q.List)
		}
	}
	for _, list := range lists {
		var rest int64
		for _, err := range counter(roster.Without(s.read(ctx, r.ID, list), users), &rest) {
			if err != nil {
				return false, fmt.Errorf("mockserver: %w", err)
			}
		}
		if rest < list.Users {
			return true, nil
		}
	}
	return false, nil
}
