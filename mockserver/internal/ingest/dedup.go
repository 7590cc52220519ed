package ingest

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
)

// Dedup knows which calls were stored lately, so that one that is sent again is
// not stored again. It keeps two generations of hashes: when the current is as
// old as the window, or full, it becomes the previous, and the previous is forgotten.
// A call is thus known for one to two windows, unless more than max calls come
// in that time.
type Dedup struct {
	window time.Duration
	max    int // hashes in both generations

	mu                sync.Mutex // guards what follows
	current, previous map[event.Key]dedupState
	since             time.Time                 // when the current generation began
	reservations      map[*reservation]struct{} // of the requests under way
}

// dedupState tells where a call stands that is known.
type dedupState bool

const (
	dedupPending dedupState = false // by a request that is under way
	dedupStored  dedupState = true
)

// A reservation is the calls that one request is storing.
type reservation struct {
	hashes    []event.Key
	done      chan struct{} // closed when it is settled, or uncertain
	uncertain bool          // it takes long to learn whether they are stored; guarded by dedup.mu
}

// errUncertain says that it is not known whether a call is stored that came before.
var errUncertain = errors.New("mockserver: it is not known whether the same call is stored")

// NewDedup returns a Dedup that knows no call yet.
func NewDedup(window time.Duration, limit int) *Dedup {
	return &Dedup{
		window: window, max: limit, since: time.Now(),
		current: map[event.Key]dedupState{}, reservations: map[*reservation]struct{}{},
	}
}

// reserve returns the calls of b that were not stored before, and a reservation
// for them that must be settled. Where another request is just storing one of them,
// it waits for that one's end: to answer for a call that is not yet stored would
// lose it if that request fails. Its error is that of ctx, or errUncertain.
func (d *Dedup) reserve(ctx context.Context, b event.Batch) (fresh, repeated event.Batch, mine *reservation, err error) {
	hashes := event.KeysOf(b)
	for {
		fresh, repeated, mine, other := d.tryReserve(b, hashes)
		if other == nil {
			return fresh, repeated, mine, nil
		}
		select {
		case <-other.done:
			if d.isUncertain(other) {
				return event.Batch{}, event.Batch{}, nil, errUncertain
			}
		case <-ctx.Done():
			return event.Batch{}, event.Batch{}, nil, ctx.Err()
		}
	}
}

// tryReserve reserves all or nothing: to hold some while waiting for others
// could make two requests wait for each other. other is whose end is to be waited
// for.
func (d *Dedup) tryReserve(b event.Batch, hashes []event.Key) (fresh, repeated event.Batch, mine, other *reservation) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rotate()
	mine = &reservation{hashes: make([]event.Key, 0, len(hashes)), done: make(chan struct{})}
	fresh, repeated = b, event.Batch{Source: b.Source, ReceivedAt: b.ReceivedAt, RetryCount: b.RetryCount}
	for i, h := range hashes {
		state, known := d.known(h)
		if known && state == dedupPending && !slices.Contains(mine.hashes, h) {
			d.remove(mine.hashes)
			return event.Batch{}, event.Batch{}, nil, d.storing(h)
		}
		switch {
		case known && repeated.Calls == nil:
			fresh.Calls = slices.Clone(b.Calls[:i])
			fallthrough
		case known:
			repeated.Calls = append(repeated.Calls, b.Calls[i])
			continue
		case repeated.Calls != nil:
			fresh.Calls = append(fresh.Calls, b.Calls[i])
		}
		d.current[h] = dedupPending
		mine.hashes = append(mine.hashes, h)
	}
	d.reservations[mine] = struct{}{}
	return fresh, repeated, mine, nil
}

// storing returns the reservation that holds a call.
func (d *Dedup) storing(h event.Key) *reservation {
	for r := range d.reservations {
		if slices.Contains(r.hashes, h) {
			return r
		}
	}
	panic("mockserver: a call is being stored by no request")
}

// settle ends a reservation whose first calls are stored, so many of them.
func (d *Dedup) settle(r *reservation, stored int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.reservations, r)
	for _, h := range r.hashes[:stored] {
		d.current[h] = dedupStored
	}
	d.remove(r.hashes[stored:])
	if !r.uncertain {
		close(r.done)
	}
}

// doubt has nobody wait for a reservation any longer that is yet to be settled.
func (d *Dedup) markUncertain(r *reservation) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r.uncertain = true
	close(r.done)
}

func (d *Dedup) isUncertain(r *reservation) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, unsettled := d.reservations[r]
	return r.uncertain && unsettled
}

// forget takes calls out that are not stored. What another collector has told of
// meanwhile stays. The lock is held.
func (d *Dedup) remove(hashes []event.Key) {
	for _, h := range hashes {
		if state, _ := d.known(h); state == dedupPending {
			delete(d.current, h)
			delete(d.previous, h)
		}
	}
}

// Fill remembers calls that were stored by an earlier process, oldest first, when
// nothing else is known yet: of too many the last.
func (d *Dedup) Fill(hashes iter.Seq[event.Key]) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for h := range hashes {
		if len(d.current) >= d.max/2 {
			d.previous, d.current = d.current, map[event.Key]dedupState{}
		}
		d.current[h] = dedupStored
	}
}

// Add remembers a call that was stored by an earlier process.
func (d *Dedup) Add(source, id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rotate()
	d.current[event.KeyOf(source, id)] = dedupStored
}

// Clear forgets all calls but those that are being stored.
func (d *Dedup) Clear() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.current, d.previous = map[event.Key]dedupState{}, nil
	for r := range d.reservations {
		for _, h := range r.hashes {
			d.current[h] = dedupPending
		}
	}
}

// Drop forgets a call that is stored.
func (d *Dedup) Drop(source, id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := event.KeyOf(source, id)
	if state, _ := d.known(h); state == dedupStored {
		delete(d.current, h)
		delete(d.previous, h)
	}
}

// known reports whether a call is known, and where it stands. The lock is held.
func (d *Dedup) known(h event.Key) (state dedupState, known bool) {
	if state, known = d.current[h]; known || len(d.previous) == 0 {
		return state, known
	}
	state, known = d.previous[h]
	return state, known
}

// age begins a new generation when it is time. The lock is held.
func (d *Dedup) rotate() {
	now := time.Now()
	if now.Sub(d.since) < d.window && len(d.current) < d.max/2 {
		return
	}
	d.previous, d.current, d.since = d.current, map[event.Key]dedupState{}, now
	for r := range d.reservations {
		for _, h := range r.hashes {
			d.current[h] = dedupPending // not to be forgotten in the generation after the next
		}
	}
}

// Without returns a batch without the calls that are known.
func (d *Dedup) Without(b event.Batch) event.Batch {
	d.mu.Lock()
	defer d.mu.Unlock()
	rest := b
	rest.Calls = nil
	for _, call := range b.Calls {
		if _, known := d.known(event.KeyOf(b.Source, call.ID)); !known {
			rest.Calls = append(rest.Calls, call)
		}
	}
	return rest
}
