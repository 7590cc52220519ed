package history

import (
	"crypto/rand"
	"fmt"
	"iter"
	"math"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// An Item is a call with its history, a rejected call, or a refused request. Exactly one of Record,
// Rejection and Refusal is set.
type Item struct {
	Order  int64 // position in lists: by arrival, or by time of receipt for calls of an earlier run
	Change int64 // position of the item's last change among the changes of all items

	Record    *tracking.Record
	Rejection *tracking.Rejection
	Refusal   *event.Refusal
	Read      *tracking.Call // the readable part of a rejected call, with its body
}

// Call returns the call, or the readable part of a rejected call. For a refused request, it contains
// only the source and the time of arrival.
func (i *Item) Call() *tracking.Call {
	switch {
	case i.Record != nil:
		return &i.Record.Call
	case i.Read != nil:
		return i.Read
	case i.Refusal != nil:
		return &tracking.Call{Source: i.Refusal.Source, ReceivedAt: i.Refusal.At}
	}
	return &tracking.Call{}
}

// Problem returns the reason why a call was rejected or a request was refused. It returns nil for an
// accepted call.
func (i *Item) Problem() *tracking.Rejection {
	if f := i.Refusal; f != nil {
		return &tracking.Rejection{Code: f.Code, Message: f.Message, Source: f.Source, ReceivedAt: f.At, Body: f.Body, Sender: f.Sender}
	}
	return i.Rejection
}

// Title returns the title of a call, or the method and path of a refused request.
func (i *Item) Title() string {
	if f := i.Refusal; f != nil {
		return f.Method + " " + f.Path
	}
	return TitleOf(i.Call())
}

// TitleOf returns a one-line title of a call: the event, the name of the page, or the IDs in the
// call.
func TitleOf(c *tracking.Call) string {
	switch typ := fields.TypeNamed(c.Type); {
	case c.Type == "alias":
		return c.PreviousID + " → " + c.UserID
	case typ.Title == fields.Name && c.Category != "" && c.Name != "":
		return c.Category + " / " + c.Name
	case typ.Title == fields.Name:
		return c.Category + c.Name
	case typ.Title == 0 && typ.Required != 0:
		return *event.TextOf(c, typ.Required)
	}
	return event.NameOf(c)
}

// At returns the time of arrival.
func (i *Item) At() time.Time { return i.Call().ReceivedAt }

// Snapshot returns a copy of an item, because items in the feed change.
func (i *Item) Snapshot() Item {
	s := *i
	if i.Record != nil {
		r := snapshot(i.Record)
		s.Record = &r
	}
	return s
}

// snapshot returns a copy of a record. It can share the lists, because the History only
// appends to them.
func snapshot(r *tracking.Record) tracking.Record {
	c := *r
	c.Ends = r.Ends[:len(r.Ends):len(r.Ends)]
	c.Attempts = r.Attempts[:len(r.Attempts):len(r.Attempts)]
	return c
}

// A Cursor is a reader's position in a feed. The zero value is not a position.
type Cursor struct {
	epoch  string // epoch of the feed, which differs for each process
	Change int64
	Order  int64
}

// String encodes the cursor for ParseCursor.
func (c Cursor) String() string { return fmt.Sprintf("%s.%d.%d", c.epoch, c.Change, c.Order) }

// ParseCursor decodes a cursor. It returns the zero value if s is invalid.
func ParseCursor(s string) Cursor {
	epoch, numbers, _ := strings.Cut(s, ".")
	c := Cursor{epoch: epoch}
	if _, err := fmt.Sscanf(numbers, "%d.%d", &c.Change, &c.Order); err != nil {
		return Cursor{}
	}
	return c
}

// A Feed contains all items of a History. Items are numbered by arrival, which is the order of
// lists, and by change, to find changes since a cursor. Calls of an earlier run are numbered by time
// of receipt; see [History.RecordUnknown]. The feed and its items are guarded by History.mu.
type Feed struct {
	epoch   string // identifies the feed; immutable, and read without the lock
	arrived int64  // order of the item that arrived last
	changes int64  // number of the last change
	cleared int64  // number of the change that last cleared the feed

	rings  [kinds]ring
	newest *entry // most recently changed entry; the field older of each entry links to the next one

	activities    []activityRef // the newest activities; activity n is at index n modulo maxActivities
	activityCount int64         // number of all activities
	firstActivity int64         // first activity after the last clear
}

// Kinds of items. Each has its own ring, so that one kind does not displace another.
const (
	sent      = iota // calls of senders
	synthetic        // synthetic calls; an audience may be large
	rejected         // rejected calls
	refused          // refused requests with a known write key
	anonymous        // refused requests without a known write key, possibly very many
	kinds
)

// callKinds is the number of kinds with records. These kinds come first.
const callKinds = rejected

// A ring contains the newest items of one kind. Their number and size are limited.
type ring struct {
	limit       int
	maxBytes    int64
	entries     []*entry  // sorted by Order, and also by Seq if they have a record
	bytes       int64     // approximate size of the entries
	expired     int64     // number of expired items
	lastExpired time.Time // latest time of an expired item
}

// An entry is an Item with its bookkeeping.
type entry struct {
	Item
	ring         *ring  // nil before the call is accepted
	older, newer *entry // neighbors in the order of changes
	size         int64  // approximate size in bytes

	key event.Key // key of the call
	// restored contains the number of Ends and Attempts that were restored from a previous run.
	restored struct{ ends, attempts int }
	since    time.Time // time of the first merged refusal
}

// Limits of refused requests: with a known write key, and without one.
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

// add adds an entry to a ring. If its Order is not set, the entry gets the next one.
func (f *Feed) add(r *ring, e *entry) {
	at := len(r.entries)
	if e.Order == 0 {
		f.arrived++
		e.Order = f.arrived
	} else {
		at = r.from(e.Order)
	}
	e.ring = r
	r.entries = slices.Insert(r.entries, at, e)
	r.bytes += e.size
	f.touch(e)
}

// removeOldest removes the oldest entry of a ring.
func (f *Feed) removeOldest(r *ring) (old *entry) {
	old, r.entries[0] = r.entries[0], nil
	r.entries = r.entries[1:]
	r.bytes -= old.size
	r.expired++
	f.unlink(old)
	return old
}

// touch records a change of an entry.
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

// clear removes all items. The numbering continues.
func (f *Feed) clear() {
	f.changes++
	f.cleared, f.newest = f.changes, nil
	f.firstActivity = f.activityCount
	for kind := range f.rings {
		r := &f.rings[kind]
		r.expired += int64(len(r.entries))
		r.entries, r.bytes = nil, 0
	}
}

func (f *Feed) len() (n int) {
	for kind := range f.rings {
		n += len(f.rings[kind].entries)
	}
	return n
}

// from returns the index of the first entry with at least the given order.
func (r *ring) from(order int64) int {
	return sort.Search(len(r.entries), func(i int) bool { return r.entries[i].Order >= order })
}

// free returns the first unused order from the given one on.
func (f *Feed) free(order int64) int64 {
	for e := range f.forward(order - 1) {
		if e.Order != order {
			break
		}
		order++
	}
	return order
}

// backward yields the entries before order from the first rings, newest first. The result can be
// used once.
func (f *Feed) backward(rings int, order int64) iter.Seq[*entry] {
	var left [kinds][]*entry
	for kind := range rings {
		r := &f.rings[kind]
		left[kind] = r.entries[:r.from(order)]
	}
	return merged(left, true)
}

// forward yields the entries after order, oldest first. The result can be used once.
func (f *Feed) forward(order int64) iter.Seq[*entry] {
	var left [kinds][]*entry
	for kind := range f.rings {
		r := &f.rings[kind]
		left[kind] = r.entries[r.from(order+1):]
	}
	return merged(left, false)
}

// merged yields the entries of all kinds, sorted by Order.
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

// Item returns the item with the given order, or nil.
func (f *Feed) Item(order int64) *Item {
	if e := f.entry(order); e != nil {
		return &e.Item
	}
	return nil
}

func (f *Feed) entry(order int64) *entry {
	for kind := range f.rings {
		r := &f.rings[kind]
		if i := r.from(order); i < len(r.entries) && r.entries[i].Order == order {
			return r.entries[i]
		}
	}
	return nil
}

// End returns the cursor after the last item and change.
func (f *Feed) End() Cursor { return Cursor{f.epoch, f.changes, f.arrived} }

// Continues reports whether a cursor may be passed to Since: it is from this process, and the feed
// was not cleared after it.
func (f *Feed) Continues(c Cursor) bool {
	return c.epoch == f.epoch && c.Change >= f.cleared && c.Change <= f.changes && c.Order >= 0 && c.Order <= f.arrived
}

// Since yields the items that are new or changed since a cursor, newest change first.
func (f *Feed) Since(c Cursor) iter.Seq[*Item] {
	return func(yield func(*Item) bool) {
		for e := f.newest; e != nil && e.Change > c.Change; e = e.older {
			if !yield(&e.Item) {
				return
			}
		}
	}
}

// maxActivities is the number of retained activities. At 10,000 calls per second, this is half a
// second.
const maxActivities = 16_384

// An activityRef refers to an activity of an item.
type activityRef struct {
	order int64 // order of the item
	kind  int8
	// index is the index of the attempt or outcome. It does not count restored ones, because
	// they may still be inserted before it.
	index int32
}

// Kinds of activities.
const (
	itemArrived int8 = iota
	itemAttempted
	itemEnded
)

// record adds an activity.
func (f *Feed) record(d activityRef) {
	if len(f.activities) < maxActivities {
		f.activities = append(f.activities, d)
	} else {
		f.activities[f.activityCount%maxActivities] = d
	}
	f.activityCount++
}

// shiftEnds adjusts the activities of an item after an outcome was inserted at index.
func (f *Feed) shiftEnds(order int64, index int32) {
	for i := range f.activities {
		if d := &f.activities[i]; d.order == order && d.kind == itemEnded && d.index >= index {
			d.index++
		}
	}
}

// recordEarly adds the activities that happened before the call was accepted.
func (f *Feed) recordEarly(e *entry) {
	for i := range len(e.Record.Attempts) - e.restored.attempts {
		f.record(activityRef{e.Order, itemAttempted, int32(i)}) //nolint:gosec // a call has few
	}
	for i := range len(e.Record.Ends) - e.restored.ends {
		f.record(activityRef{e.Order, itemEnded, int32(i)}) //nolint:gosec // a call has few
	}
}
