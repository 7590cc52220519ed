package users

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/roster"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
)

// eraseUsers takes the users of a deletion request out of all lists of some sources,
// after the syncs that are queued. It may be called again for the same request.
func (u *Service) eraseUsers(ctx context.Context, sources []string, request string, users roster.Seq) error {
	return state.Each(ctx, u.state, computationPrefix, func(id string, r computationRecord) error {
		if !slices.Contains(sources, r.Source) || r.hasErased(request) {
			return nil
		}
		if holds, err := u.holdsAny(ctx, r, users); err != nil || !holds {
			return err
		}
		list, err := u.upload(ctx, id, users)
		if err != nil {
			return err
		}
		_, err = u.enqueue(ctx, r, list, Sync{Deletion: request})
		if errors.Is(err, state.ErrNotFound) {
			return nil // forgotten meanwhile
		}
		return err
	})
}

// holdsAny reports whether one of some users is in the current list, or in one that
// is queued.
func (u *Service) holdsAny(ctx context.Context, r computationRecord, users roster.Seq) (bool, error) {
	for _, list := range r.told() {
		rest, err := roster.Count(roster.Without(u.readStored(ctx, r.ID, list), users))
		if err != nil {
			return false, fmt.Errorf("mockserver: %w", err)
		}
		if rest < list.Users {
			return true, nil
		}
	}
	return false, nil
}
