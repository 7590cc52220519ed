package users

import (
	"context"
	"errors"
	"iter"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
)

// A deletionWork is the work on one request.
type deletionWork struct {
	*Service
	key    string
	record deletionRecord // as it was stored last
	doubt  int            // how many of its calls may be in the journal, though the record does not say so
}

// claimDeletion takes the lease of a request.
func (u *Service) claimDeletion(ctx context.Context, key string) (*deletionWork, error) {
	w := &deletionWork{Service: u, key: key}
	resumed := false
	var err error
	w.record, err = u.updateDeletion(ctx, key, func(r *deletionRecord) error {
		if !r.CompletedAt.IsZero() {
			return errNoWork
		}
		resumed = r.Lease.Instance != ""
		return r.Lease.take(u.config.Instance)
	})
	if errors.Is(err, state.ErrNotFound) {
		err = errNoWork // forgotten
	}
	if resumed {
		w.doubt = w.record.Sent + 2*u.config.BatchCalls
	}
	return w, err
}

// note changes the record, if the request is still this process's to work on.
func (w *deletionWork) note(ctx context.Context, change func(*deletionRecord)) error {
	record, err := w.updateDeletion(ctx, w.key, func(r *deletionRecord) error {
		if r.Secret != w.record.Secret {
			return errNoWork // forgotten, and asked for again
		}
		if err := r.Lease.renew(w.config.Instance); err != nil {
			return err
		}
		change(r)
		return nil
	})
	if err == nil {
		w.record = record
	}
	return err
}

// users yields the users of the request with their numbers, from one on.
func (w *deletionWork) users(ctx context.Context, from int) iter.Seq2[deletionUser, error] {
	return func(yield func(deletionUser, error) bool) {
		for n := from / w.record.Chunk; n < w.record.chunks(); n++ {
			chunk, err := w.loadChunk(ctx, w.key, w.record, n)
			if err != nil {
				yield(deletionUser{}, err)
				return
			}
			for i, id := range chunk.Users {
				if number := n*w.record.Chunk + i; number >= from && !yield(deletionUser{id, number}, nil) {
					return
				}
			}
		}
	}
}

// A deletionUser is one of the users of a request.
type deletionUser struct {
	id     string
	number int // in the request
}

// emitter makes the calls of a source.
func (w *deletionWork) emitter(source string) (*emitter, error) {
	return newEmitter("delete", source, w.record.RequestedAt, w.record.destinations(source), nil)
}
