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

// pausesKey is the key of the stored pauses. The value is a JSON object of pauses by destination.
// Collectors with the same store share it.
const pausesKey = "holds"

// A requestedPause is a pause of a destination that a response of its receiver requires.
type requestedPause struct {
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

// onPause stores a requested pause in the background.
func (c *Collector) onPause(d *tracking.Destination, until time.Time) {
	p := requestedPause{until.UTC(), digestOfURLs(d)}
	c.newPauses.put(d.Name, p, func(last requestedPause) bool { return last.Webhooks == p.Webhooks && !p.Until.After(last.Until) })
}

// storePause stores a requested pause, unless a later pause of the same URLs is stored. It also
// removes expired pauses.
func (c *Collector) storePause(destination string, p requestedPause) {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	_, err := state.Update(ctx, c.config.Store, pausesKey, func(pauses *map[string]requestedPause) error {
		now := time.Now()
		maps.DeleteFunc(*pauses, func(_ string, p requestedPause) bool { return !p.Until.After(now) })
		if stored, ok := (*pauses)[destination]; ok && stored.Webhooks == p.Webhooks && !p.Until.After(stored.Until) {
			return nil
		}
		if *pauses == nil {
			*pauses = map[string]requestedPause{}
		}
		(*pauses)[destination] = p
		return nil
	})
	if err != nil && !errors.Is(err, state.ErrClosed) {
		c.config.Logger.Warn("could not store the Retry-After pause of a destination: a restart ends it early", "destination", destination, "error", err)
	}
}

// loadPauses reads the stored pauses and applies them to the destinations.
func (c *Collector) loadPauses(ctx context.Context) error {
	pauses, err := state.Load[map[string]requestedPause](ctx, c.config.Store, pausesKey)
	if err != nil && !errors.Is(err, state.ErrNotFound) {
		return err
	}
	c.storedPauses.Store(&pauses)
	for _, w := range c.workers.all() {
		if until := c.pausedUntil(w.Destination()); !until.IsZero() {
			w.PauseUntil(until)
		}
	}
	return nil
}

// pausedUntil returns the end of a destination's stored pause, or the zero time. The result is at
// most sender.MaxPause from now, even if the clock was set back.
func (c *Collector) pausedUntil(d *tracking.Destination) time.Time {
	pauses := c.storedPauses.Load()
	if pauses == nil {
		return time.Time{}
	}
	now := time.Now()
	p, ok := (*pauses)[d.Name]
	if !ok || p.Webhooks != digestOfURLs(d) || !p.Until.After(now) {
		return time.Time{}
	}
	if latest := now.Add(sender.MaxPause); p.Until.After(latest) {
		return latest
	}
	return p.Until
}
