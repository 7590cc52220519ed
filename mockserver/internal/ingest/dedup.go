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
// has two generations of calls. When the current generation is full or as old as the window, it
// becomes the previous one. A call is therefore recognized for at least one window, and usually at
// most two, unless there are more than max calls in that time.
type Dedup struct {
	window time.Duration
	max    int // maximum number of calls in a generation

	mu                sync.Mutex // guards the fields below
	current, previous keySet     // stored calls
	since             time.Time  // start of the current generation
	pending           map[key]*reservation
}

// A reservation lists the calls that one request is storing.
type reservation struct {
	hashes []key
	done   chan struct{} // closed when the reservation is settled or uncertain

	uncertain, settled bool // uncertain: the result of the append is not known yet; guarded by Dedup.mu
}

// errUncertain reports that it is not known whether an earlier copy of a call is stored.
var errUncertain = errors.New("mockserver: could not determine whether the same call is already stored")

// NewDedup returns an empty Dedup. limit is the maximum number of calls in both generations.
func NewDedup(window time.Duration, limit int) *Dedup {
	return &Dedup{window: window, max: limit / 2, since: time.Now(), pending: map[key]*reservation{}}
}

// reserve splits b into new and repeated calls, and reserves the new calls. The caller must settle
// the reservation. If another request is storing one of the calls, reserve waits for it, because a
// call must not be confirmed before it is stored. The error is ctx.Err() or errUncertain.
func (d *Dedup) reserve(ctx context.Context, b event.Batch) (fresh, repeated event.Batch, reserved *reservation, err error) {
	hashes := make([]key, len(b.Calls))
	for i, c := range b.Calls {
		hashes[i] = keyOf(c.Source, c.ID)
	}
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
func (d *Dedup) tryReserve(b event.Batch, hashes []key) (fresh, repeated event.Batch, reserved, other *reservation) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rotate()
	reserved = &reservation{hashes: make([]key, 0, len(hashes)), done: make(chan struct{})}
	fresh, repeated = b, event.Batch{Source: b.Source, ReceivedAt: b.ReceivedAt, RetryCount: b.RetryCount}
	for i, h := range hashes {
		known := d.isStored(h)
		if holder := d.pending[h]; !known && holder != nil {
			if holder != reserved {
				d.release(reserved)
				return event.Batch{}, event.Batch{}, nil, holder
			}
			known = true
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
		d.pending[h] = reserved
		reserved.hashes = append(reserved.hashes, h)
	}
	return fresh, repeated, reserved, nil
}

// release removes the calls of a reservation from the pending calls. The lock must be held.
func (d *Dedup) release(r *reservation) {
	for _, h := range r.hashes {
		delete(d.pending, h)
	}
}

// settle ends a reservation. stored is the number of its calls that are stored; they come first.
func (d *Dedup) settle(r *reservation, stored int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.release(r)
	for _, h := range r.hashes[:stored] {
		d.current.add(h, d.max)
	}
	if r.settled = true; !r.uncertain {
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
	return r.uncertain && !r.settled
}

// Fill adds the calls stored in previous runs. messages yields a source and the messageIds of some of
// its calls, oldest first. Fill is called at startup.
func (d *Dedup) Fill(messages iter.Seq2[string, iter.Seq[string]]) {
	var keys []key
	for source, ids := range messages { // the lock is not held while messages reads
		keys = keys[:0]
		for id := range ids {
			keys = append(keys, keyOf(source, id))
		}
		d.addStored(keys)
	}
}

// Add adds a call stored in a previous run or by another collector.
func (d *Dedup) Add(source, id string) { d.addStored([]key{keyOf(source, id)}) }

func (d *Dedup) addStored(keys []key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rotate()
	for _, k := range keys {
		d.current.add(k, d.max)
	}
}

// Clear removes all calls except calls that are being stored.
func (d *Dedup) Clear() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.current, d.previous = keySet{}, keySet{}
}

// Drop removes a stored call.
func (d *Dedup) Drop(source, id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := keyOf(source, id)
	d.current.remove(h)
	d.previous.remove(h)
}

// isStored reports whether a call is stored. The lock must be held.
func (d *Dedup) isStored(h key) bool { return d.current.has(h) || d.previous.has(h) }

// rotate starts a new generation if the current one is old or full. The lock must be held.
func (d *Dedup) rotate() {
	if now := time.Now(); now.Sub(d.since) >= d.window || d.current.size >= d.max {
		d.previous, d.current, d.since = d.current, keySet{}, now
	}
}

// Without returns the batch without known calls.
func (d *Dedup) Without(b event.Batch) event.Batch {
	d.mu.Lock()
	defer d.mu.Unlock()
	rest := b
	rest.Calls = nil
	for _, call := range b.Calls {
		h := keyOf(b.Source, call.ID)
		if d.pending[h] == nil && !d.isStored(h) {
			rest.Calls = append(rest.Calls, call)
		}
	}
	return rest
}
