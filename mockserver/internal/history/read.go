package history

import (
	"cmp"
	"context"
	"encoding/hex"
	"iter"
	"maps"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// chunk is the number of items that are read without releasing the lock. Searching this many large
// calls for a string takes a few milliseconds, during which no events can be recorded.
const chunk = 250

// Await waits until n records match, and returns copies of the matching records, oldest first. If
// ctx is canceled first, it returns the records that match and the error of ctx.
func (h *History) Await(ctx context.Context, n int, match func(*tracking.Record) bool) ([]tracking.Record, error) {
	var seen Cursor
	matching := map[int64]tracking.Record{}
	for {
		changed := h.Changed()
		var records []tracking.Record
		h.View(func(f *Feed) {
			if !f.Continues(seen) {
				seen = Cursor{}
				clear(matching)
			}
			for i := range f.Since(seen) {
				if i.Record != nil {
					records = append(records, snapshot(i.Record))
				}
			}
			seen = f.End()
		})
		for _, r := range records {
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
		case <-changed:
		case <-ctx.Done():
			return bySeq(matching), ctx.Err()
		}
	}
}

func bySeq(records map[int64]tracking.Record) (sorted []tracking.Record) {
	for _, seq := range slices.Sorted(maps.Keys(records)) {
		sorted = append(sorted, records[seq])
	}
	return sorted
}

// View calls see with the feed. The lock is held during the call, so see must be fast. It may retain
// only snapshots of items.
func (h *History) View(see func(*Feed)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	see(&h.feed)
}

// End returns the cursor after the last item, and the number of items.
func (h *History) End() (end Cursor, count int) {
	h.View(func(f *Feed) { end, count = f.End(), f.len() })
	return end, count
}

// Newest is an order after all items.
const Newest = math.MaxInt64

// Scan calls see for every item before order, newest first, until see returns false. The lock is
// held during each call, so see must be fast. It may retain only snapshots of items.
func (h *History) Scan(before int64, see func(*Item) bool) {
	for before > 0 {
		h.View(func(f *Feed) { before = f.scan(before, see) })
	}
}

// scan calls see for a chunk of the items before an order. It returns the order before which the
// next chunk begins, or 0 at the end.
func (f *Feed) scan(before int64, see func(*Item) bool) int64 {
	n := 0
	for e := range f.backward(kinds, before) {
		if n == chunk {
			return e.Order + 1
		}
		if n++; !see(&e.Item) {
			break
		}
	}
	return 0
}

// Forward yields snapshots of the items after an order, oldest first. The lock is not held during
// yield.
func (h *History) Forward(order int64) iter.Seq[Item] {
	return func(yield func(Item) bool) {
		for {
			items := h.after(order)
			for _, item := range items {
				if !yield(item) {
					return
				}
			}
			if len(items) < chunk {
				return // even if more items have arrived in the meantime
			}
			order = items[len(items)-1].Order
		}
	}
}

// after returns snapshots of the first items after an order, oldest first. It returns at most chunk items.
func (h *History) after(order int64) []Item {
	h.mu.Lock()
	defer h.mu.Unlock()
	var items []Item
	for e := range h.feed.forward(order) {
		if items = append(items, e.Item.Snapshot()); len(items) == chunk {
			break
		}
	}
	return items
}

// Page returns up to limit matching records with a Seq less than before, newest first. more reports
// whether others follow. If before is 0, the page starts with the newest record. A nil match
// accepts all records.
func (h *History) Page(before int64, limit int, match func(*tracking.Record) bool) (page []tracking.Record, more bool) {
	for r := range h.Backward(before) {
		if match != nil && !match(&r) {
			continue
		}
		if len(page) == limit {
			return page, true
		}
		page = append(page, r)
	}
	return page, false
}

// HasOutcomeAt reports whether a call has an outcome at the destination with this name.
func (h *History) HasOutcomeAt(name string) (found bool) {
	h.Scan(Newest, func(i *Item) bool {
		if i.Record != nil {
			_, found = i.Record.Last(name)
		}
		return !found
	})
	return found
}

// Records returns the matching records, oldest first. A nil match accepts all records.
func (h *History) Records(match func(*tracking.Record) bool) []tracking.Record {
	found, _ := h.Page(0, math.MaxInt, match)
	slices.Reverse(found)
	return found
}

// Undrained returns the calls since the last drain, oldest first. If drain is set, it drains them.
func (h *History) Undrained(drain bool) []tracking.Call {
	h.mu.Lock()
	after, upTo := h.drained, h.lastSeq
	if drain {
		h.drained = upTo
	}
	h.mu.Unlock()
	var calls []tracking.Call
	for r := range h.Backward(upTo + 1) {
		if r.Seq <= after {
			break
		}
		calls = append(calls, r.Call)
	}
	slices.Reverse(calls)
	return calls
}

// Backward yields the records with a Seq less than before, newest first. If before is 0, it yields
// all records. The lock is not held during yield.
func (h *History) Backward(before int64) iter.Seq[tracking.Record] {
	return func(yield func(tracking.Record) bool) {
		for records := h.below(before); len(records) > 0; records = h.below(before) {
			for _, r := range records {
				if !yield(r) {
					return
				}
			}
			before = records[len(records)-1].Seq
		}
	}
}

// below returns a chunk of the records with a Seq less than before, newest first.
func (h *History) below(before int64) []tracking.Record {
	h.mu.Lock()
	defer h.mu.Unlock()
	records := make([]tracking.Record, 0, chunk)
	for e := range h.feed.backward(callKinds, h.feed.orderOf(before)) {
		if records = append(records, snapshot(e.Record)); len(records) == chunk {
			break
		}
	}
	return records
}

// orderOf returns the order of the first item with a record that has at least the given Seq. If
// there is none, or if seq is 0, it returns an order after all items.
func (f *Feed) orderOf(seq int64) int64 {
	order := f.arrived + 1
	if seq <= 0 {
		return order
	}
	for _, r := range f.rings[:callKinds] {
		if i := sort.Search(len(r.entries), func(i int) bool { return r.entries[i].Record.Seq >= seq }); i < len(r.entries) {
			order = min(order, r.entries[i].Order)
		}
	}
	return order
}

// Find returns the record of a call.
func (h *History) Find(source, messageID string) (tracking.Record, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.byCall[event.KeyOf(source, messageID)]
	if e == nil {
		return tracking.Record{}, false
	}
	return snapshot(e.Record), true
}

// RefOf returns an identifier of an item for URLs. The identifier of a call is permanent;
// other identifiers are valid until the process ends.
func (h *History) RefOf(i *Item) string {
	if i.Record != nil {
		return RefOfCall(i.Record.Call.Source, i.Record.Call.ID)
	}
	return h.feed.epoch + "-" + strconv.FormatInt(i.Order, 10)
}

// RefOfCall returns the identifier of a call; see [History.RefOf].
func RefOfCall(source, id string) string {
	hash := event.KeyOf(source, id)
	return hex.EncodeToString(hash[:])
}

// Item returns a snapshot of the item with an identifier.
func (h *History) Item(ref string) (Item, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var found *Item
	if epoch, order, ok := strings.Cut(ref, "-"); ok && epoch == h.feed.epoch {
		if n, err := strconv.ParseInt(order, 10, 64); err == nil {
			found = h.feed.Item(n)
		}
	} else if hash, err := hex.DecodeString(ref); err == nil && len(hash) == len(event.Key{}) {
		if e := h.byCall[event.Key(hash)]; e != nil {
			found = &e.Item
		}
	}
	if found == nil {
		return Item{}, false
	}
	return found.Snapshot(), true
}

// Rejections returns the retained rejections, oldest first, and the number of the first one.
// Rejections are numbered from 1.
func (h *History) Rejections() (all []tracking.Rejection, first int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := &h.feed.rings[rejected]
	for _, e := range r.entries {
		all = append(all, *e.Rejection)
	}
	return all, r.expired + 1
}

// RejectedSince returns the time since which all rejections and refusals are retained. Unlike
// attempts, they are not restored after a restart.
func (h *History) RejectedSince() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	since := h.start
	for _, kind := range []int{rejected, refused, anonymous} {
		if at := h.feed.rings[kind].lastExpired; at.After(since) {
			since = at
		}
	}
	return since
}

// Refusals returns the retained refusals, oldest first.
func (h *History) Refusals() []event.Refusal {
	h.mu.Lock()
	defer h.mu.Unlock()
	entries := slices.Concat(h.feed.rings[refused].entries, h.feed.rings[anonymous].entries)
	slices.SortFunc(entries, func(a, b *entry) int { return cmp.Compare(a.Order, b.Order) })
	all := make([]event.Refusal, 0, len(entries))
	for _, e := range entries {
		all = append(all, *e.Refusal)
	}
	return all
}

// Expired returns the number of expired calls.
func (h *History) Expired() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.expired
}

// Sources returns the sources of the newest n calls of senders and the newest n synthetic calls,
// sources of senders first, each group in order of arrival.
func (h *History) Sources(n int) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var names []string
	seen := map[string]bool{}
	for _, r := range h.feed.rings[:callKinds] {
		for _, e := range r.entries[max(0, len(r.entries)-n):] {
			if name := e.Record.Call.Source; !seen[name] {
				seen[name] = true
				names = append(names, name)
			}
		}
	}
	return names
}

// Seconds returns the counts of each second from first to last, if they are still retained. It
// omits seconds without events.
func (h *History) Seconds(first, last int64) []Interval {
	h.mu.Lock()
	defer h.mu.Unlock()
	return since(h.tally.seconds[:], 1, first, last)
}

// Minutes is like Seconds, for the minutes from first to last, which are Unix seconds.
func (h *History) Minutes(first, last int64) []Interval {
	h.mu.Lock()
	defer h.mu.Unlock()
	return since(h.tally.minutes[:], 60, first, last)
}

// Outcomes returns the number of a destination's newest attempts since a time, and the number of
// failures among them.
func (h *History) Outcomes(destination string, since time.Time) (attempts, failed int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.recent.since(destination, since)
}
