package mockserver

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"
)

// callHash names a call: its source and its messageId.
type callHash [16]byte

func hashCall(source, id string) callHash {
	h := sha256.New()
	_, _ = h.Write([]byte(source))
	_, _ = h.Write([]byte{0})
	_, _ = h.Write([]byte(id))
	var sum [sha256.Size]byte
	return callHash(h.Sum(sum[:0])[:16])
}

// dedup knows which calls were stored lately, so that one that is sent again is
// not stored again. It keeps two generations of hashes: when the younger is as
// old as the window, or full, it becomes the elder, and the elder is forgotten.
// A call is thus known for one to two windows, unless more than max calls come
// in that time.
type dedup struct {
	clock  Clock
	window time.Duration
	max    int // hashes in both generations

	mu             sync.Mutex // guards what follows
	younger, elder map[callHash]struct{}
	since          time.Time                  // when the younger generation began
	storing        map[callHash]chan struct{} // calls of requests under way; closed when their request ends
}

func newDedup(clock Clock, window time.Duration, limit int) *dedup {
	return &dedup{
		clock: clock, window: window, max: limit, since: clock.Now(),
		younger: map[callHash]struct{}{}, storing: map[callHash]chan struct{}{},
	}
}

// reserve returns the calls of b that were not stored before, and a function to
// be called with whether they are now. Where another request is just storing
// one of them, it waits for that one's end: to answer for a call that is not yet
// stored would lose it if that request fails.
func (d *dedup) reserve(ctx context.Context, b Batch) (fresh, repeated Batch, done func(stored bool)) {
	hashes := make([]callHash, len(b.Calls))
	for i := range b.Calls {
		hashes[i] = hashCall(b.Source, b.Calls[i].ID)
	}
	for {
		fresh, repeated, mine, other := d.tryReserve(b, hashes)
		if other == nil {
			return fresh, repeated, func(stored bool) { d.settle(hashes, mine, stored) }
		}
		select {
		case <-other:
		case <-ctx.Done():
			// The sender is gone and will send again; Append will see the same context.
			return b, Batch{}, func(bool) {}
		}
	}
}

// tryReserve reserves all or nothing: to hold some while waiting for others
// could make two requests wait for each other.
func (d *dedup) tryReserve(b Batch, hashes []callHash) (fresh, repeated Batch, mine, other chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.age()
	for _, h := range hashes {
		if other := d.storing[h]; other != nil {
			return Batch{}, Batch{}, nil, other
		}
	}
	fresh, repeated = b, Batch{Source: b.Source, ReceivedAt: b.ReceivedAt}
	fresh.Calls = make([]Call, 0, len(b.Calls))
	mine = make(chan struct{})
	for i, h := range hashes {
		if d.known(h) || d.storing[h] != nil {
			repeated.Calls = append(repeated.Calls, b.Calls[i])
			continue
		}
		d.storing[h] = mine
		fresh.Calls = append(fresh.Calls, b.Calls[i])
	}
	return fresh, repeated, mine, nil
}

func (d *dedup) settle(hashes []callHash, mine chan struct{}, stored bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, h := range hashes {
		if d.storing[h] == mine {
			delete(d.storing, h)
			if stored {
				d.younger[h] = struct{}{}
			}
		}
	}
	close(mine)
}

// add remembers a call that was stored by an earlier process.
func (d *dedup) add(source, id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.age()
	d.younger[hashCall(source, id)] = struct{}{}
}

func (d *dedup) clear() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.younger, d.elder = map[callHash]struct{}{}, nil
}

func (d *dedup) known(h callHash) bool {
	if _, ok := d.younger[h]; ok {
		return true
	}
	_, ok := d.elder[h]
	return ok
}

func (d *dedup) age() {
	if now := d.clock.Now(); now.Sub(d.since) >= d.window || len(d.younger) >= d.max/2 {
		d.elder, d.younger, d.since = d.younger, map[callHash]struct{}{}, now
	}
}
