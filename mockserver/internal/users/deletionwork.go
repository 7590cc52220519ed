package users

import (
	"context"
	"time"
)

// A deletionWork is the work on one request.
type deletionWork struct {
	*deletions
	key    string
	record deletionRecord
	doubt  int // how many of its calls may be stored already, by a process that was killed
}

func (d *deletions) claim(ctx context.Context, key string) (*deletionWork, error) {
	w := &deletionWork{deletions: d, key: key}
	resumed := false
	record, err := d.update(ctx, key, func(r *deletionRecord) error {
		if !r.Ready || !r.Completed.IsZero() {
			return errNoWork
		}
		resumed = r.Started
		r.Started = true
		return r.Lease.take(d.service.config.Instance, time.Now())
	})
	w.record = record
	if resumed {
		w.doubt = record.Sent + 2*d.service.config.BatchCalls
	}
	return w, err
}

// tell changes the record, if the request is still this process's to work on.
func (w *deletionWork) tell(ctx context.Context, change func(*deletionRecord)) error {
	record, err := w.update(ctx, w.key, func(r *deletionRecord) error {
		if r.Secret != w.record.Secret {
			return errNoWork
		}
		if r.Lease.Instance != w.service.config.Instance {
			return errElsewhere
		}
		change(r)
		return r.Lease.take(w.service.config.Instance, time.Now())
	})
	if err == nil {
		w.record = record
	}
	return err
}

// users yields the users of the request with their numbers, from one on.
func (w *deletionWork) users(ctx context.Context, from int) func(func(deletionUser, error) bool) {
	return func(yield func(deletionUser, error) bool) {
		for n := from / w.record.Chunk; n < w.record.chunks(); n++ {
			chunk, err := w.chunk(ctx, w.key, w.record, n)
			if err != nil {
				yield(deletionUser{}, err)
				return
			}
			for i, id := range chunk.Users {
				u := deletionUser{id: id, number: n*w.record.Chunk + i, chunk: chunk, place: i}
				if u.number >= from && !yield(u, nil) {
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
	chunk  deletionChunk
	place  int // in the chunk
}

// complete notes that all notifications have come to their end, if they have, or
// returns how many have not.
func (d *deletions) complete(ctx context.Context, key string) (pending int, err error) {
	r, err := d.load(ctx, key)
	if err != nil || !r.Completed.IsZero() {
		return 0, err
	}
	targets, pending, err := d.count(ctx, key, r)
	if err != nil || pending > 0 || !r.Erased {
		return max(pending, 1), err
	}
	r, err = d.update(ctx, key, func(r *deletionRecord) error {
		if r.Completed.IsZero() {
			r.Completed, r.Targets = time.Now().UTC(), targets
		}
		return nil
	})
	if err == nil {
		d.settle(key, r)
	}
	return 0, err
}
