package users

import (
	"context"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
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
		if err := pause.For(ctx, emitPause); err != nil {
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
