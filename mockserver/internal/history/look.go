package history

import (
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
)

// Look shows the feed as it is at one moment. see is called with the History's lock
// held: it must be quick, and keep only snapshots of items.
func (h *History) Look(see func(*Feed)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	see(&h.feed)
}

// End returns the cursor of somebody who has seen all that the feed holds, and how
// many items these are.
func (h *History) End() (end Cursor, held int) {
	h.Look(func(f *Feed) { end, held = f.End(), f.held() })
	return end, held
}

// scanChunk is how many items are looked at under the History's lock at a time: to
// look for a text in so many large calls takes some milliseconds.
const scanChunk = 250

// Scan shows see every item that came before order, newest first, until it
// returns false. see is called with the History's lock held: it must be quick, and
// keep only snapshots.
func (h *History) Scan(before int64, see func(*Item) bool) {
	for more := true; more; {
		h.Look(func(f *Feed) {
			i := f.from(before) - 1
			for stop := i - scanChunk; more && i >= 0 && i > stop; i-- {
				more = f.items[i].gone || see(&f.items[i].Item)
			}
			if more = more && i >= 0; more {
				before = f.items[i].Order + 1
			}
		})
	}
}

// RefOf names an item in a URL: a call by what it is, so that the link lasts; the
// others by their place, as long as this process remembers them.
func (h *History) RefOf(i *Item) string {
	if i.Record != nil {
		return RefOfCall(i.Record.Call.Source, i.Record.Call.ID)
	}
	return h.feed.epoch + "-" + strconv.FormatInt(i.Order, 10)
}

// RefOfCall names a call in a URL, see [History.RefOf].
func RefOfCall(source, id string) string {
	hash := event.KeyOf(source, id)
	return hex.EncodeToString(hash[:])
}

// Item returns a snapshot of what a ref names.
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
			found = &e.place.Item
		}
	}
	if found == nil {
		return Item{}, false
	}
	return found.Snapshot(), true
}

// Seconds returns the seconds from first to last in which something happened, as far
// back as they are counted.
func (h *History) Seconds(first, last int64) []Second {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.tally.since(first, last)
}
