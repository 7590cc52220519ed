package users

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/roster"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
)

// deletionsWaiting returns the keys of the requests that are not completed. It also deletes
// expired requests.
func (u *Service) deletionsWaiting(ctx context.Context) ([]string, error) {
	keys, err := state.Keys(ctx, u.state, deletionPrefix)
	if err != nil {
		return nil, err
	}
	var open []string
	for _, key := range keys {
		completed, known := u.completed[key]
		if !known {
			r, err := u.loadDeletion(ctx, key)
			switch {
			case errors.Is(err, state.ErrNotFound): // another process has deleted the request
				continue
			case err != nil:
				return open, err
			case r.CompletedAt.IsZero():
				open = append(open, deletionKey(key))
				continue
			}
			completed = r.CompletedAt
			u.completed[key] = completed
		}
		if time.Since(completed) > DeletionKept {
			delete(u.completed, key)
			if err := u.deleteDeletion(ctx, key); err != nil {
				return open, err
			}
		}
	}
	return open, nil
}

// deleteDeletion deletes a request. If it is interrupted, clean deletes the chunks later.
func (u *Service) deleteDeletion(ctx context.Context, key string) error {
	if err := u.deleteNamed(ctx, deletionKey(key)); err != nil {
		return err
	}
	return u.state.Delete(ctx, chunkPrefix+"."+key)
}

// workOnDeletion creates the calls of a request. If it is called again later, it checks for lost
// outcomes.
func (u *Service) workOnDeletion(ctx context.Context, key string) error {
	w, err := u.claimDeletion(ctx, key)
	if err != nil {
		return err
	}
	defer w.release()
	for i, source := range w.record.sourcesNotified() {
		if err := w.send(ctx, i, source); err != nil {
			return err
		}
	}
	if err := w.erase(ctx); err != nil {
		return err
	}
	targets, done, err := u.complete(ctx, key)
	if err == nil && !done {
		err = w.findLost(ctx, targets)
	}
	if err != nil {
		return err
	}
	return errNoWork // until the next check for lost outcomes
}

// send creates the remaining calls for one source.
func (w *deletionWork) send(ctx context.Context, number int, source string) error {
	first := w.record.Sent - number*w.record.Users
	if first >= w.record.Users {
		return nil
	}
	e, err := w.emitter(source)
	if err != nil {
		return err
	}
	for user, err := range w.users(ctx, first) {
		if err != nil {
			return err
		}
		e.add(w.record.messageID(w.id, source, user.number), w.config.StoredID(source)(user.id), nil)
		if next := user.number + 1; e.full(w.config.BatchCalls) && next < w.record.Users {
			if err := w.flush(ctx, e, number*w.record.Users+next); err != nil {
				return err
			}
		}
	}
	return w.flush(ctx, e, (number+1)*w.record.Users) // counts all users, because the last chunks may be lost
}

// flush stores the calls of e in the journal, and then stores sent in the record. sent is the
// total number of calls so far.
func (w *deletionWork) flush(ctx context.Context, e *emitter, sent int) error {
	if err := w.emit(ctx, e, w.record.Sent < w.maybeStored); err != nil {
		return fmt.Errorf("deletion request %q waits for its calls to be stored: %w", w.record.ID, err)
	}
	e.reset()
	return w.note(ctx, func(r *deletionRecord) { r.Sent, r.SentAt = sent, time.Now().UTC() })
}

// erase removes the users from the lists of audiences and computed traits.
func (w *deletionWork) erase(ctx context.Context) error {
	if w.record.Erased {
		return nil
	}
	users := func(yield func(roster.Entry, error) bool) {
		for user, err := range w.users(ctx, 0) {
			if !yield(roster.Entry{User: user.id}, err) {
				return
			}
		}
	}
	if err := w.eraseUsers(ctx, w.record.Sources, w.record.ID, users); err != nil {
		return err
	}
	return w.note(ctx, func(r *deletionRecord) { r.Erased = true })
}

// A deletionWork is the work on one request.
type deletionWork struct {
	lease[deletionRecord, *deletionRecord]
	id          string // key of the request without its prefix
	maybeStored int    // calls with lower numbers may be stored although the record does not count them
}

// claimDeletion acquires the lease of a request.
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
		w.maybeStored = w.record.Sent + 2*u.config.BatchCalls
	}
	return w, err
}

// users yields the users of the request with their numbers, starting at number from. It skips
// lost chunks.
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

// A deletionUser is a user of a request.
type deletionUser struct {
	id     string
	number int // index in the request
}

// emitter returns an emitter for the calls of a source.
func (w *deletionWork) emitter(source string) (*emitter, error) {
	return newEmitter("delete", source, w.record.RequestedAt, w.record.destinations(source), nil)
}
