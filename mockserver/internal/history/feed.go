package history

import (
	"crypto/rand"
	"fmt"
	"iter"
	"math"
	"sort"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
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

// TitleOf returns what a call is about, in one line: its event, the name of its page, or
// what stands for it.
func TitleOf(c *tracking.Call) string {
	switch c.Type {
	case "page", "screen":
		if c.Category != "" && c.Name != "" {
			return c.Category + " / " + c.Name
		}
		return c.Category + c.Name
	case "group":
		return c.GroupID
	case "alias":
		return c.PreviousID + " → " + c.UserID
	}
	return c.Event
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

// snapshot copies the record as it is now: the History appends to its lists and never
// changes what they hold.
func snapshot(r *tracking.Record) tracking.Record {
	c := *r
	c.Ends = r.Ends[:len(r.Ends):len(r.Ends)]
	c.Attempts = r.Attempts[:len(r.Attempts):len(r.Attempts)]
	return c
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

// A Feed holds all that a History remembers, and numbers it in two ways: by arrival, for
// a list with the newest on top, and by change, so that somebody who looked before can
// be told what is new since. The History's lock guards it and its items.
type Feed struct {
	epoch   string // tells this feed's numbers from those of another process; it does not change, and is read without the lock
	arrived int64  // the order of the item that came last
	changes int64  // the number of the last change
	cleared int64  // the number of the change that emptied the feed

	rings  [kinds]ring
	newest *entry // by change; the others follow by older

	activities    []activityRef // the newest activities: the nth is at n modulo maxActivities
	activityCount int64         // how many there were
	firstActivity int64         // the first that the feed was not cleared after
}

// Kinds of items. Each has a ring of its own, so that none pushes the others out.
const (
	sent      = iota // calls of senders
	synthetic        // calls that the collector made: an audience can be large
	rejected         // calls that were not taken
	refused          // requests with a known write key that were not taken
	anonymous        // such requests without one, of which there may be a flood
	kinds
)

// callKinds are the first kinds: those whose items have a record.
const callKinds = rejected

// A ring holds the newest items of a kind, up to a number and about a size. Cursors
// into it are numbers of its items, which stay right when items go.
type ring struct {
	limit       int
	maxBytes    int64
	entries     []*entry  // by Order, and by Seq where they have a record
	bytes       int64     // of entries, about
	gone        int64     // how many are not in entries any more
	lastExpired time.Time // the latest ReceivedAt of calls that made room
}

// An entry is an Item and what the History needs to keep it.
type entry struct {
	Item
	ring         *ring  // nil for a call that was not accepted yet
	older, newer *entry // by change
	size         int64  // about, in bytes

	key event.Key // of a call
	// restored counts those of a call's Ends and of its Attempts that an earlier process
	// recorded.
	restored struct{ ends, attempts int }
	since    time.Time // of a refusal: when the first request came that it stands for
}

// maxRefusals is how many requests are kept that were refused with a known write key,
// and maxAnonymous how many of others.
const (
	maxRefusals  = 1000
	maxAnonymous = 10
)

func newFeed(limit int) Feed {
	f := Feed{epoch: strings.ToLower(rand.Text()[:8])}
	for kind := range f.rings {
		f.rings[kind] = ring{limit: limit, maxBytes: math.MaxInt64}
	}
	f.rings[refused].limit, f.rings[anonymous].limit = maxRefusals, maxAnonymous
	return f
}

// add puts an entry on top of a ring that has room for it.
func (f *Feed) add(r *ring, e *entry) {
	f.arrived++
	e.Order, e.ring = f.arrived, r
	r.entries = append(r.entries, e)
	r.bytes += e.size
	f.touch(e)
}

// removeOldest takes out the oldest entry of a ring.
func (f *Feed) removeOldest(r *ring) (old *entry) {
	old, r.entries[0] = r.entries[0], nil
	r.entries = r.entries[1:]
	r.bytes -= old.size
	r.gone++
	f.unlink(old)
	return old
}

// touch notes that an item has changed.
func (f *Feed) touch(e *entry) {
	f.unlink(e)
	f.changes++
	e.Change = f.changes
	if e.older = f.newest; e.older != nil {
		e.older.newer = e
	}
	f.newest = e
}

func (f *Feed) unlink(e *entry) {
	if f.newest == e {
		f.newest = e.older
	}
	if e.older != nil {
		e.older.newer = e.newer
	}
	if e.newer != nil {
		e.newer.older = e.older
	}
	e.older, e.newer = nil, nil
}

// clear forgets all items. The numbers go on.
func (f *Feed) clear() {
	f.changes++
	f.cleared, f.newest = f.changes, nil
	f.firstActivity = f.activityCount
	for kind := range f.rings {
		r := &f.rings[kind]
		r.gone += int64(len(r.entries))
		r.entries, r.bytes = nil, 0
	}
}

// count returns how many items there are.
func (f *Feed) len() (n int) {
	for kind := range f.rings {
		n += len(f.rings[kind].entries)
	}
	return n
}

// from returns the index of the first entry that did not come before order.
func (r *ring) from(order int64) int {
	return sort.Search(len(r.entries), func(i int) bool { return r.entries[i].Order >= order })
}

// backward yields the entries of the first rings that came before order, newest first.
func (f *Feed) backward(rings int, order int64) iter.Seq[*entry] {
	var left [kinds][]*entry
	for kind := range rings {
		r := &f.rings[kind]
		left[kind] = r.entries[:r.from(order)]
	}
	return merged(left, true)
}

// forward yields the entries that came after order, oldest first.
func (f *Feed) forward(order int64) iter.Seq[*entry] {
	var left [kinds][]*entry
	for kind := range f.rings {
		r := &f.rings[kind]
		left[kind] = r.entries[r.from(order+1):]
	}
	return merged(left, false)
}

// merged yields the entries of all kinds by their order.
func merged(left [kinds][]*entry, newestFirst bool) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		for {
			var next *entry
			of := 0
			for kind, entries := range left {
				if len(entries) == 0 {
					continue
				}
				e := entries[0]
				if newestFirst {
					e = entries[len(entries)-1]
				}
				if next == nil || (e.Order > next.Order) == newestFirst {
					next, of = e, kind
				}
			}
			if next == nil || !yield(next) {
				return
			}
			if newestFirst {
				left[of] = left[of][:len(left[of])-1]
			} else {
				left[of] = left[of][1:]
			}
		}
	}
}

// Item returns the item of an order, or nil.
func (f *Feed) Item(order int64) *Item {
	if e := f.entry(order); e != nil {
		return &e.Item
	}
	return nil
}

// entry returns the entry of an order, or nil.
func (f *Feed) entry(order int64) *entry {
	for kind := range f.rings {
		r := &f.rings[kind]
		if i := r.from(order); i < len(r.entries) && r.entries[i].Order == order {
			return r.entries[i]
		}
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
		for e := f.newest; e != nil && e.Change > c.Change; e = e.older {
			if !yield(&e.Item) {
				return
			}
		}
	}
}

// maxActivities is how many activities are remembered. At 10,000 calls a second they are those
// of half a second.
const maxActivities = 16_384

// A activityRef is an activity as the feed remembers it.
type activityRef struct {
	order int64 // of the item
	kind  int8
	// index is the attempt's or the outcome's place among those that this process
	// recorded: those of an earlier one may yet be put before them.
	index int32
}

// What a activityRef is.
const (
	itemArrived int8 = iota
	itemAttempted
	itemEnded
)

// note remembers an activity.
func (f *Feed) record(d activityRef) {
	if len(f.activities) < maxActivities {
		f.activities = append(f.activities, d)
	} else {
		f.activities[f.activityCount%maxActivities] = d
	}
	f.activityCount++
}

// shiftEnds makes room for an outcome of an item before others that are remembered.
func (f *Feed) shiftEnds(order int64, index int32) {
	for i := range f.activities {
		if d := &f.activities[i]; d.order == order && d.kind == itemEnded && d.index >= index {
			d.index++
		}
	}
}

// recordEarly remembers what happened to a call before it was known.
func (f *Feed) recordEarly(e *entry) {
	for i := range len(e.Record.Attempts) - e.restored.attempts {
		f.record(activityRef{e.Order, itemAttempted, int32(i)}) //nolint:gosec // a call has few
	}
	for i := range len(e.Record.Ends) - e.restored.ends {
		f.record(activityRef{e.Order, itemEnded, int32(i)}) //nolint:gosec // a call has few
	}
}
