package users

import (
	"context"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/roster"
)

// step makes the calls of a request, and looks for outcomes that were lost.
func (d *deletions) step(ctx context.Context, key string) error {
	w, err := d.claim(ctx, key)
	if err != nil {
		return err
	}
	for i, source := range w.record.sourcesNotified() {
		if err := w.send(ctx, i, source); err != nil {
			return err
		}
	}
	if err := w.erase(ctx); err != nil {
		return err
	}
	if err := d.store(ctx); err != nil {
		return err
	}
	pending, err := d.complete(ctx, key)
	if err != nil || pending == 0 {
		return err
	}
	if err := w.findLost(ctx); err != nil {
		return err
	}
	return errNoWork // until outcomes come, or it is time to look again
}

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

// send makes the calls for one of the sources that were not made before.
func (w *deletionWork) send(ctx context.Context, number int, source string) error {
	first := w.record.Sent - number*w.record.Users
	if first >= w.record.Users {
		return nil
	}
	e, err := newEmitter("delete", source, w.record.RequestedAt, w.record.destinations(source), nil)
	if err != nil {
		return err
	}
	for u, err := range w.users(ctx, first) {
		if err != nil {
			return err
		}
		e.add(w.record.messageID(w.key, source, u.number), u.id, nil)
		if e.full(w.service.config.BatchCalls) || u.number == w.record.Users-1 {
			sent := number*w.record.Users + u.number + 1
			if err := w.emit(ctx, e, w.record.Sent < w.doubt); err != nil {
				return err
			}
			if err := w.tell(ctx, func(r *deletionRecord) { r.Sent, r.SentAt = sent, time.Now().UTC() }); err != nil {
				return err
			}
		}
	}
	return nil
}

// emit brings a batch to the journal, and keeps the lease meanwhile.
func (w *deletionWork) emit(ctx context.Context, e *emitter, perhapsStored bool) error {
	for ; ; perhapsStored = true {
		err := w.service.emit(ctx, e.batch(time.Now()), perhapsStored)
		if err == nil {
			e.clear()
			return nil
		}
		w.service.config.Logger.Warn("a deletion request waits for its calls to be stored", "id", w.record.ID, "error", err)
		if err := sleep(ctx, emitPause); err != nil {
			return err
		}
		if err := w.tell(ctx, func(*deletionRecord) {}); err != nil {
			return err
		}
	}
}

// erase takes the users out of the lists of audiences and computed traits.
func (w *deletionWork) erase(ctx context.Context) error {
	if w.record.Erased {
		return nil
	}
	users := func(yield func(roster.Entry, error) bool) {
		for u, err := range w.users(ctx, 0) {
			if !yield(roster.Entry{User: u.id}, err) {
				return
			}
		}
	}
	if err := w.service.syncs.erase(ctx, w.record.Sources, w.record.ID, users); err != nil {
		return err
	}
	return w.tell(ctx, func(r *deletionRecord) { r.Erased = true })
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
