package users

import (
	"context"
	"errors"
	"iter"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
)

// A deletionWork is the work on one request.
type deletionWork struct {
	turn[deletionRecord, *deletionRecord]
	id    string // the key without its prefix
	doubt int    // how many of its calls may be in the journal, though the record does not say so
}

// claimDeletion takes the turn of a request.
func (u *Service) claimDeletion(ctx context.Context, id string) (*deletionWork, error) {
	w := &deletionWork{id: id}
	w.Service, w.key = u, deletionKey(id)
	resumed := false
	err := w.begin(ctx, func(r *deletionRecord) error {
		if !r.CompletedAt.IsZero() {
			return errNoWork
		}
		resumed = r.Instance != ""
		return nil
	})
	if resumed {
		w.doubt = w.record.Sent + 2*u.config.BatchCalls
	}
	return w, err
}

// users yields the users of the request with their numbers, from one on. It skips lost
// chunks.
func (w *deletionWork) users(ctx context.Context, from int) iter.Seq2[deletionUser, error] {
	return func(yield func(deletionUser, error) bool) {
		for n := from / w.record.Chunk; n < w.record.chunks(); n++ {
			chunk, err := w.loadChunk(ctx, w.id, w.record, n)
			if errors.Is(err, state.ErrNotFound) {
				continue
			}
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
