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
	return errors.Join(u.cleanUploads(ctx, segmentPrefix, u.usesList), u.cleanUploads(ctx, chunkPrefix, u.usesChunks))
}

// cleanUploads deletes those that are not used by the record of their ID.
func (u *Service) cleanUploads(ctx context.Context, prefix string, used func(ctx context.Context, id, upload string) (bool, error)) error {
	keys, err := state.Keys(ctx, u.state, prefix)
	if err != nil {
		return err
	}
	uploads := map[[2]string]bool{} // by the ID of the record and the name of the upload
	for _, key := range keys {
		id, part, _ := strings.Cut(key, ".")
		upload, _, _ := strings.Cut(part, ".")
		if u.givenUp(upload) {
			uploads[[2]string{id, upload}] = true
		}
	}
	for upload := range uploads {
		is, err := used(ctx, upload[0], upload[1])
		if err == nil && !is {
			err = u.state.Delete(ctx, uploadKey(prefix, upload[0], upload[1]))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// usesList reports whether a computation has a list.
func (u *Service) usesList(ctx context.Context, id, upload string) (bool, error) {
	r, err := u.loadComputation(ctx, id)
	if errors.Is(err, state.ErrNotFound) {
		return false, nil
	}
	return slices.ContainsFunc(r.lists(), func(l storedList) bool { return l.Upload == upload }), err
}

// usesChunks reports whether a deletion request has chunks.
func (u *Service) usesChunks(ctx context.Context, key, upload string) (bool, error) {
	r, err := u.loadDeletion(ctx, key)
	if errors.Is(err, state.ErrNotFound) {
		return false, nil
	}
	return r.Upload == upload, err
}
