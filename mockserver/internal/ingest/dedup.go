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

// A Dedup recognizes calls that were stored recently, so that they are not stored again. It
// has two generations of hashes. When the current generation is full or as old as the window, it
// becomes the previous one. A call is therefore recognized for one to two windows, unless
// there are more than max calls in that time.
type Dedup struct {
	window time.Duration
	max    int // maximum number of hashes in both generations

	mu                sync.Mutex // guards the fields below
	current, previous map[event.Key]dedupState
	since             time.Time                 // start of the current generation
	reservations      map[*reservation]struct{} // reservations of pending requests
}

// dedupState is the state of a known call.
type dedupState bool

const (
	dedupPending dedupState = false // a request is storing the call
	dedupStored  dedupState = true
)

// A reservation lists the calls that one request is storing.
type reservation struct {
	hashes    []event.Key
	done      chan struct{} // closed when the reservation is settled or uncertain
	uncertain bool          // the result of the append is not known yet; guarded by Dedup.mu
}

// errUncertain reports that it is not known whether an earlier copy of a call is stored.
var errUncertain = errors.New("mockserver: could not determine whether the same call is already stored")

// NewDedup returns an empty Dedup.
func NewDedup(window time.Duration, limit int) *Dedup {
	return &Dedup{
		window: window, max: limit, since: time.Now(),
		current: map[event.Key]dedupState{}, reservations: map[*reservation]struct{}{},
	}
}

// reserve splits b into new and repeated calls, and reserves the new calls. The caller must settle
// the reservation. If another request is storing one of the calls, reserve waits for it, because a
// call must not be confirmed before it is stored. The error is that of ctx, or errUncertain.
func (d *Dedup) reserve(ctx context.Context, b event.Batch) (fresh, repeated event.Batch, reserved *reservation, err error) {
	hashes := event.KeysOf(b)
	for {
		fresh, repeated, reserved, other := d.tryReserve(b, hashes)
		if other == nil {
			return fresh, repeated, reserved, nil
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

// tryReserve reserves all new calls. If another request is storing one of them, tryReserve reserves
// nothing and returns the other reservation, and the caller must wait for it. A partial reservation
// could deadlock two requests.
func (d *Dedup) tryReserve(b event.Batch, hashes []event.Key) (fresh, repeated event.Batch, reserved, other *reservation) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rotate()
	reserved = &reservation{hashes: make([]event.Key, 0, len(hashes)), done: make(chan struct{})}
	fresh, repeated = b, event.Batch{Source: b.Source, ReceivedAt: b.ReceivedAt, RetryCount: b.RetryCount}
	for i, h := range hashes {
		state, known := d.known(h)
		if known && state == dedupPending && !slices.Contains(reserved.hashes, h) {
			d.remove(reserved.hashes)
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
		reserved.hashes = append(reserved.hashes, h)
	}
	d.reservations[reserved] = struct{}{}
	return fresh, repeated, reserved, nil
}

// storing returns the reservation that contains a call.
func (d *Dedup) storing(h event.Key) *reservation {
	for r := range d.reservations {
		if slices.Contains(r.hashes, h) {
			return r
		}
	}
	panic("mockserver: a call is being stored by no request")
}

// settle ends a reservation. stored is the number of its calls that are stored; they come first.
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

// markUncertain releases the requests that wait for a reservation. The reservation must still be
// settled.
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

// remove removes calls that were not stored, except calls that another collector has reported as
// stored. The lock must be held.
func (d *Dedup) remove(hashes []event.Key) {
	for _, h := range hashes {
		if state, _ := d.known(h); state == dedupPending {
			delete(d.current, h)
			delete(d.previous, h)
		}
	}
}

// Fill adds the calls stored in previous runs, oldest first. It is called at startup. If there are
// too many calls, it drops the oldest.
func (d *Dedup) Fill(hashes iter.Seq[event.Key]) {
	for h := range hashes { // the lock is not held while hashes reads
		d.fill(h)
	}
}

func (d *Dedup) fill(h event.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.current) >= d.max/2 {
		d.previous, d.current = d.current, map[event.Key]dedupState{}
	}
	d.current[h] = dedupStored
}

// Add adds a call stored in a previous run or by another collector.
func (d *Dedup) Add(source, id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rotate()
	d.current[event.KeyOf(source, id)] = dedupStored
}

// Clear removes all calls except calls that are being stored.
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

// Drop removes a stored call.
func (d *Dedup) Drop(source, id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := event.KeyOf(source, id)
	if state, _ := d.known(h); state == dedupStored {
		delete(d.current, h)
		delete(d.previous, h)
	}
}

// known reports whether a call is known, and its state. The lock must be held.
func (d *Dedup) known(h event.Key) (state dedupState, known bool) {
	if state, known = d.current[h]; known || len(d.previous) == 0 {
		return state, known
	}
	state, known = d.previous[h]
	return state, known
}

// rotate starts a new generation if the current one is old or full. The lock must be held.
func (d *Dedup) rotate() {
	now := time.Now()
	if now.Sub(d.since) < d.window && len(d.current) < d.max/2 {
		return
	}
	d.previous, d.current, d.since = d.current, map[event.Key]dedupState{}, now
	for r := range d.reservations {
		for _, h := range r.hashes {
			d.current[h] = dedupPending // pending calls stay in the current generation
		}
	}
}

// Without returns the batch without known calls.
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
