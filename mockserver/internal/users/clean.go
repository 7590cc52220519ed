package users

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
)

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
	return errors.Join(lists, chunks)
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
