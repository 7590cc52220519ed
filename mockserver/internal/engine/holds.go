package engine

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/sender"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// holdsKey is the key of the stored holds. The value is a JSON object of holds by destination.
// Collectors with the same store share it.
const holdsKey = "holds"

// A hold is a pause of a destination, required by a response of its receiver.
type hold struct {
	Until    time.Time `json:"until"`
	Webhooks string    `json:"webhooks"` // digest of the URLs
}

// A backgroundWriter stores the latest value of each destination in the background. Its methods
// may be called concurrently.
type backgroundWriter[V comparable] struct {
	store   func(destination string, v V) // not called concurrently for the same destination
	writing sync.WaitGroup
	mu      sync.Mutex // guards latest
	latest  map[string]V
}

// put stores a value in the background. Of the values that arrive during a write, only the latest
// is stored. A value is ignored if covers reports that the latest value makes it unnecessary.
func (w *backgroundWriter[V]) put(destination string, v V, covers func(latest V) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	latest, busy := w.latest[destination]
	if busy && covers(latest) {
		return
	}
	if w.latest == nil {
		w.latest = map[string]V{}
	}
	w.latest[destination] = v
	if !busy {
		w.writing.Go(func() { w.write(destination, v) })
	}
}

func (w *backgroundWriter[V]) write(destination string, v V) {
	for {
		w.store(destination, v)
		w.mu.Lock()
		latest := w.latest[destination]
		if latest == v {
			delete(w.latest, destination)
			w.mu.Unlock()
			return
		}
		v = latest
		w.mu.Unlock()
	}
}

// wait waits for the writes in progress. The caller must have stopped the workers.
func (w *backgroundWriter[V]) wait() { w.writing.Wait() }

// onHeld stores a hold in the background.
func (c *Collector) onHeld(d *tracking.Destination, until time.Time) {
	h := hold{until.UTC(), digestOfURLs(d)}
	c.held.put(d.Name, h, func(last hold) bool { return last.Webhooks == h.Webhooks && !h.Until.After(last.Until) })
}

// storeHold stores a hold, unless a later hold of the same URLs is stored. It also removes
// expired holds.
func (c *Collector) storeHold(destination string, h hold) {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	_, err := state.Update(ctx, c.config.Store, holdsKey, func(holds *map[string]hold) error {
		now := time.Now()
		maps.DeleteFunc(*holds, func(_ string, h hold) bool { return !h.Until.After(now) })
		if stored, ok := (*holds)[destination]; ok && stored.Webhooks == h.Webhooks && !h.Until.After(stored.Until) {
			return nil
		}
		if *holds == nil {
			*holds = map[string]hold{}
		}
		(*holds)[destination] = h
		return nil
	})
	if err != nil && !errors.Is(err, state.ErrClosed) {
		c.config.Logger.Warn("could not store the Retry-After pause of a destination: a restart ends it early", "destination", destination, "error", err)
	}
}

// loadHolds reads the stored holds and applies them to the destinations.
func (c *Collector) loadHolds(ctx context.Context) error {
	holds, err := state.Load[map[string]hold](ctx, c.config.Store, holdsKey)
	if err != nil && !errors.Is(err, state.ErrNotFound) {
		return err
	}
	c.holds.Store(&holds)
	for _, w := range c.workers.all() {
		if until := c.heldUntil(w.Destination()); !until.IsZero() {
			w.Hold(until)
		}
	}
	return nil
}

// heldUntil returns the end of a destination's stored pause, or the zero time. The result is at
// most sender.MaxHold from now, even if the clock was set back.
func (c *Collector) heldUntil(d *tracking.Destination) time.Time {
	holds := c.holds.Load()
	if holds == nil {
		return time.Time{}
	}
	now := time.Now()
	h, ok := (*holds)[d.Name]
	if !ok || h.Webhooks != digestOfURLs(d) || !h.Until.After(now) {
		return time.Time{}
	}
	if latest := now.Add(sender.MaxHold); h.Until.After(latest) {
		return latest
	}
	return h.Until
}
