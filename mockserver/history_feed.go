package mockserver

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"iter"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/jsonscan"
)

// A feedItem is a call and what became of it, a call that was not taken, or a
// request that was not taken: one of record, rejection and refusal is set.
type feedItem struct {
	order  int64 // counts the items from 1 as they came
	change int64 // counts the changes of all items; this is the item's last one

	record    *Record
	rejection *Rejection
	refusal   *Refusal
	read      *Call // what could be read of a rejected call
}

// call returns the call, or what could be read of it.
func (i *feedItem) call() *Call {
	switch {
	case i.record != nil:
		return &i.record.Call
	case i.read != nil:
		return i.read
	case i.refusal != nil:
		return &Call{Source: i.refusal.Source}
	}
	return &Call{}
}

// at returns when it came.
func (i *feedItem) at() time.Time {
	switch {
	case i.record != nil:
		return i.record.Call.ReceivedAt
	case i.rejection != nil:
		return i.rejection.ReceivedAt
	default:
		return i.refusal.At
	}
}

// snapshot copies an item that the feed shows, to be kept: it changes there.
func (i *feedItem) snapshot() feedItem {
	s := *i
	if i.record != nil {
		r := snapshot(i.record)
		s.record = &r
	}
	return s
}

// A cursor is how far somebody has looked at a feed. The zero value is no position.
type cursor struct {
	epoch  string // of the feed: each process counts anew
	change int64
	order  int64
}

// String writes the cursor as parseCursor reads it.
func (c cursor) String() string { return fmt.Sprintf("%s.%d.%d", c.epoch, c.change, c.order) }

// parseCursor returns the zero value where s is no cursor.
func parseCursor(s string) cursor {
	epoch, numbers, _ := strings.Cut(s, ".")
	c := cursor{epoch: epoch}
	if _, err := fmt.Sscanf(numbers, "%d.%d", &c.change, &c.order); err != nil {
		return cursor{}
	}
	return c
}

// A feed numbers all that a History holds in two ways: by arrival, for a list
// with the newest on top, and by change, so that somebody who looked before can
// be told what is new since. The History's lock guards it and its items.
type feed struct {
	epoch   string // tells this feed's numbers from those of another process; it does not change, and is read without the lock
	arrived int64  // the order of the item that came last
	changes int64  // the number of the last change
	cleared int64  // the number of the change that emptied the feed

	items    []*feedNode // by arrival, oldest first; some may be gone
	gone     int         // how many of items are
	newest   *feedNode   // by change; the others follow by older
	rejected []*feedNode // the rejections among items, oldest first
	// The refusals among items, oldest first, of requests with a known write key and
	// of others.
	refused, strangers []*feedNode
}

// A feedNode is an item in its place. add puts it into the feed and remove takes it
// out for good.
type feedNode struct {
	feedItem
	gone         bool
	older, newer *feedNode // by change
	since        time.Time // when the first request came that a refusal stands for
}

func newFeed() feed { return feed{epoch: strings.ToLower(rand.Text()[:8])} }

// add puts an item on top.
func (f *feed) add(n *feedNode) {
	f.arrived++
	n.order = f.arrived
	f.items = append(f.items, n)
	switch {
	case n.rejection != nil:
		f.rejected = append(f.rejected, n)
	case n.refusal != nil && n.refusal.Source != "":
		f.refused = append(f.refused, n)
	case n.refusal != nil:
		f.strangers = append(f.strangers, n)
	}
	f.touch(n)
}

// note adds the record of an entry that was kept, or notes that it has changed.
func (f *feed) note(e *entry) {
	if e.place.order > 0 {
		f.touch(&e.place)
		return
	}
	e.place.record = &e.Record
	f.add(&e.place)
}

// touch notes that an item has changed.
func (f *feed) touch(n *feedNode) {
	if n.gone {
		return
	}
	f.unlink(n)
	f.changes++
	n.change = f.changes
	if n.older = f.newest; n.older != nil {
		n.older.newer = n
	}
	f.newest = n
}

func (f *feed) unlink(n *feedNode) {
	if f.newest == n {
		f.newest = n.older
	}
	if n.older != nil {
		n.older.newer = n.newer
	}
	if n.newer != nil {
		n.newer.older = n.older
	}
	n.older, n.newer = nil, nil
}

// remove forgets an item.
func (f *feed) remove(n *feedNode) {
	if n.gone {
		return
	}
	f.unlink(n)
	n.gone = true
	n.record, n.rejection, n.refusal, n.read = nil, nil, nil, nil
	f.gone++
	for len(f.items) > 0 && f.items[0].gone {
		f.items[0] = nil
		f.items = f.items[1:]
		f.gone--
	}
	if f.gone > len(f.items)/2 {
		f.compact()
	}
}

func (f *feed) compact() {
	kept := make([]*feedNode, 0, len(f.items)-f.gone)
	for _, n := range f.items {
		if !n.gone {
			kept = append(kept, n)
		}
	}
	f.items, f.gone = kept, 0
}

// removeOldest forgets the oldest of a kind.
func (f *feed) removeOldest(kind *[]*feedNode) {
	f.remove((*kind)[0])
	(*kind)[0] = nil
	*kind = (*kind)[1:]
}

// clear forgets all items. The numbers go on.
func (f *feed) clear() {
	for _, n := range f.items {
		n.gone = true
	}
	f.changes++
	f.cleared = f.changes
	f.items, f.gone, f.newest, f.rejected, f.refused, f.strangers = nil, 0, nil, nil, nil, nil
}

// held returns how many items there are.
func (f *feed) held() int { return len(f.items) - f.gone }

// from returns the index of the first item that did not come before order.
func (f *feed) from(order int64) int {
	return sort.Search(len(f.items), func(i int) bool { return f.items[i].order >= order })
}

// item returns the item of an order, or nil.
func (f *feed) item(order int64) *feedItem {
	if i := f.from(order); i < len(f.items) && f.items[i].order == order && !f.items[i].gone {
		return &f.items[i].feedItem
	}
	return nil
}

// end returns the cursor of somebody who has seen all.
func (f *feed) end() cursor { return cursor{f.epoch, f.changes, f.arrived} }

// continues reports whether the feed can say what is new since a cursor: it is of this
// process, and the feed was not cleared meanwhile.
func (f *feed) continues(c cursor) bool {
	return c.epoch == f.epoch && c.change >= f.cleared && c.change <= f.changes && c.order >= 0 && c.order <= f.arrived
}

// since yields the items that are new or have changed since a cursor, the last change
// first.
func (f *feed) since(c cursor) iter.Seq[*feedItem] {
	return func(yield func(*feedItem) bool) {
		for n := f.newest; n != nil && n.change > c.change; n = n.older {
			if !yield(&n.feedItem) {
				return
			}
		}
	}
}

// look shows the feed as it is at one moment. see is called with the History's lock
// held: it must be quick, and keep only snapshots of items.
func (h *History) look(see func(*feed)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	see(&h.feed)
}

// end returns the cursor of somebody who has seen all that the feed holds, and how
// many items these are.
func (h *History) end() (end cursor, held int) {
	h.look(func(f *feed) { end, held = f.end(), f.held() })
	return end, held
}

// scanChunk is how many items are looked at under the History's lock at a time: to
// look for a text in so many large calls takes some milliseconds.
const scanChunk = 250

// scan shows see every item that came before order, newest first, until it
// returns false. see is called with the History's lock held: it must be quick, and
// keep only snapshots.
func (h *History) scan(before int64, see func(*feedItem) bool) {
	for more := true; more; {
		h.look(func(f *feed) {
			i := f.from(before) - 1
			for stop := i - scanChunk; more && i >= 0 && i > stop; i-- {
				more = f.items[i].gone || see(&f.items[i].feedItem)
			}
			if more = more && i >= 0; more {
				before = f.items[i].order + 1
			}
		})
	}
}

// refOf names an item in a URL: a call by what it is, so that the link lasts; the
// others by their place, as long as this process remembers them.
func (h *History) refOf(i *feedItem) string {
	if i.record != nil {
		return refOfCall(i.record.Call.Source, i.record.Call.ID)
	}
	return h.feed.epoch + "-" + strconv.FormatInt(i.order, 10)
}

func refOfCall(source, id string) string {
	hash := hashCall(source, id)
	return hex.EncodeToString(hash[:])
}

// item returns a snapshot of what a ref names.
func (h *History) item(ref string) (feedItem, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var found *feedItem
	if epoch, order, ok := strings.Cut(ref, "-"); ok && epoch == h.feed.epoch {
		if n, err := strconv.ParseInt(order, 10, 64); err == nil {
			found = h.feed.item(n)
		}
	} else if hash, err := hex.DecodeString(ref); err == nil && len(hash) == len(callHash{}) {
		if e := h.byCall[callHash(hash)]; e != nil {
			found = &e.place.feedItem
		}
	}
	if found == nil {
		return feedItem{}, false
	}
	return found.snapshot(), true
}

// readRejected reads what it can of a call that was not taken.
func readRejected(r Rejection) *Call {
	c := &Call{Source: r.Source, ReceivedAt: r.ReceivedAt, Body: r.Body}
	s := jsonscan.New(r.Body)
	_ = s.Object(func(key []byte) error { // what comes before an error is good to show
		value, err := s.Value()
		if err == nil {
			if field := textField(c, fieldOf(key)); field != nil {
				*field = text(value)
			}
		}
		return err
	})
	c.Type = r.Type // perhaps of its endpoint
	return c
}
