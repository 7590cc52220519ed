package history

import (
	"crypto/rand"
	"fmt"
	"iter"
	"sort"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/jsonscan"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// An Item is a call and what became of it, a call that was not taken, or a
// request that was not taken: one of record, rejection and refusal is set.
type Item struct {
	Order  int64 // counts the items from 1 as they came
	Change int64 // counts the changes of all items; this is the item's last one

	Record    *tracking.Record
	Rejection *tracking.Rejection
	Refusal   *event.Refusal
	Read      *tracking.Call // what could be read of a rejected call
}

// Call returns the call, or what could be read of it.
func (i *Item) Call() *tracking.Call {
	switch {
	case i.Record != nil:
		return &i.Record.Call
	case i.Read != nil:
		return i.Read
	case i.Refusal != nil:
		return &tracking.Call{Source: i.Refusal.Source}
	}
	return &tracking.Call{}
}

// At returns when it came.
func (i *Item) At() time.Time {
	switch {
	case i.Record != nil:
		return i.Record.Call.ReceivedAt
	case i.Rejection != nil:
		return i.Rejection.ReceivedAt
	default:
		return i.Refusal.At
	}
}

// Snapshot copies an item that the feed shows, to be kept: it changes there.
func (i *Item) Snapshot() Item {
	s := *i
	if i.Record != nil {
		r := snapshot(i.Record)
		s.Record = &r
	}
	return s
}

// A Cursor is how far somebody has looked at a feed. The zero value is no position.
type Cursor struct {
	epoch  string // of the feed: each process counts anew
	Change int64
	Order  int64
}

// String writes the cursor as ParseCursor reads it.
func (c Cursor) String() string { return fmt.Sprintf("%s.%d.%d", c.epoch, c.Change, c.Order) }

// ParseCursor returns the zero value where s is no cursor.
func ParseCursor(s string) Cursor {
	epoch, numbers, _ := strings.Cut(s, ".")
	c := Cursor{epoch: epoch}
	if _, err := fmt.Sscanf(numbers, "%d.%d", &c.Change, &c.Order); err != nil {
		return Cursor{}
	}
	return c
}

// A Feed numbers all that a History holds in two ways: by arrival, for a list
// with the newest on top, and by change, so that somebody who looked before can
// be told what is new since. The History's lock guards it and its items.
type Feed struct {
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
	Item
	gone         bool
	older, newer *feedNode // by change
	since        time.Time // when the first request came that a refusal stands for
}

func newFeed() Feed { return Feed{epoch: strings.ToLower(rand.Text()[:8])} }

// add puts an item on top.
func (f *Feed) add(n *feedNode) {
	f.arrived++
	n.Order = f.arrived
	f.items = append(f.items, n)
	switch {
	case n.Rejection != nil:
		f.rejected = append(f.rejected, n)
	case n.Refusal != nil && n.Refusal.Source != "":
		f.refused = append(f.refused, n)
	case n.Refusal != nil:
		f.strangers = append(f.strangers, n)
	}
	f.touch(n)
}

// touch notes that an item has changed.
func (f *Feed) touch(n *feedNode) {
	if n.gone {
		return
	}
	f.unlink(n)
	f.changes++
	n.Change = f.changes
	if n.older = f.newest; n.older != nil {
		n.older.newer = n
	}
	f.newest = n
}

func (f *Feed) unlink(n *feedNode) {
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
func (f *Feed) remove(n *feedNode) {
	if n.gone {
		return
	}
	f.unlink(n)
	n.gone = true
	n.Record, n.Rejection, n.Refusal, n.Read = nil, nil, nil, nil
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

func (f *Feed) compact() {
	kept := make([]*feedNode, 0, len(f.items)-f.gone)
	for _, n := range f.items {
		if !n.gone {
			kept = append(kept, n)
		}
	}
	f.items, f.gone = kept, 0
}

// removeOldest forgets the oldest of a kind.
func (f *Feed) removeOldest(kind *[]*feedNode) {
	f.remove((*kind)[0])
	(*kind)[0] = nil
	*kind = (*kind)[1:]
}

// clear forgets all items. The numbers go on.
func (f *Feed) clear() {
	for _, n := range f.items {
		n.gone = true
	}
	f.changes++
	f.cleared = f.changes
	f.items, f.gone, f.newest, f.rejected, f.refused, f.strangers = nil, 0, nil, nil, nil, nil
}

// held returns how many items there are.
func (f *Feed) held() int { return len(f.items) - f.gone }

// from returns the index of the first item that did not come before order.
func (f *Feed) from(order int64) int {
	return sort.Search(len(f.items), func(i int) bool { return f.items[i].Order >= order })
}

// Item returns the item of an order, or nil.
func (f *Feed) Item(order int64) *Item {
	if i := f.from(order); i < len(f.items) && f.items[i].Order == order && !f.items[i].gone {
		return &f.items[i].Item
	}
	return nil
}

// End returns the cursor of somebody who has seen all.
func (f *Feed) End() Cursor { return Cursor{f.epoch, f.changes, f.arrived} }

// Continues reports whether the feed can say what is new since a cursor: it is of this
// process, and the feed was not cleared meanwhile.
func (f *Feed) Continues(c Cursor) bool {
	return c.epoch == f.epoch && c.Change >= f.cleared && c.Change <= f.changes && c.Order >= 0 && c.Order <= f.arrived
}

// Since yields the items that are new or have changed since a cursor, the last change
// first.
func (f *Feed) Since(c Cursor) iter.Seq[*Item] {
	return func(yield func(*Item) bool) {
		for n := f.newest; n != nil && n.Change > c.Change; n = n.older {
			if !yield(&n.Item) {
				return
			}
		}
	}
}

// readRejected reads what it can of a call that was not taken.
func readRejected(r tracking.Rejection) *tracking.Call {
	c := &tracking.Call{Source: r.Source, ReceivedAt: r.ReceivedAt, Body: r.Body}
	s := jsonscan.New(r.Body)
	_ = s.Object(func(key []byte) error { // what comes before an error is good to show
		value, err := s.Value()
		if err == nil {
			if field := fields.TextOf(c, fields.Of(key)); field != nil {
				*field = fields.Text(value)
			}
		}
		return err
	})
	c.Type = r.Type // perhaps of its endpoint
	return c
}

// snapshot copies the record as it is now: the History appends to its lists and never
// changes what they hold.
func snapshot(r *tracking.Record) tracking.Record {
	c := *r
	c.Ends = r.Ends[:len(r.Ends):len(r.Ends)]
	c.Attempts = r.Attempts[:len(r.Attempts):len(r.Attempts)]
	return c
}
