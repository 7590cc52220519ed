package history

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// watch starts a watcher, which sees every record as changed first.
func (h *History) watch() *watcher {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := &watcher{history: h, wake: make(chan struct{}, 1), changed: map[*entry]struct{}{}}
	for _, r := range []*ring{&h.sent, &h.made} {
		for _, e := range r.entries {
			w.add(e)
		}
	}
	if h.watchers == nil {
		h.watchers = map[*watcher]struct{}{}
	}
	h.watchers[w] = struct{}{}
	return w
}

func (w *watcher) stop() {
	w.history.mu.Lock()
	defer w.history.mu.Unlock()
	delete(w.history.watchers, w)
}

// take returns the records that have changed since it was called last, and whether
// those that it returned before were cleared meanwhile.
func (w *watcher) take() (records []tracking.Record, cleared bool) {
	w.history.mu.Lock()
	defer w.history.mu.Unlock()
	records = make([]tracking.Record, 0, len(w.changed))
	for e := range w.changed {
		records = append(records, snapshot(&e.Record))
	}
	clear(w.changed)
	cleared, w.cleared = w.cleared, false
	return records, cleared
}

// Await waits until n records match, and returns them as they were then, oldest
// first. If ctx ends before, it returns those that do match and ctx's error.
func (h *History) Await(ctx context.Context, n int, match func(*tracking.Record) bool) ([]tracking.Record, error) {
	w := h.watch()
	defer w.stop()
	matching := map[int64]tracking.Record{}
	for {
		changed, cleared := w.take()
		if cleared {
			clear(matching)
		}
		for _, r := range changed {
			if match(&r) {
				matching[r.Seq] = r
			} else {
				delete(matching, r.Seq)
			}
		}
		if len(matching) >= n {
			return bySeq(matching), nil
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
			return bySeq(matching), ctx.Err()
		}
	}
}

func bySeq(records map[int64]tracking.Record) []tracking.Record {
	return slices.SortedFunc(maps.Values(records), func(a, b tracking.Record) int { return cmp.Compare(a.Seq, b.Seq) })
}
