package mockserver

import (
	"crypto/rand"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/jsonscan"
)

// A feed numbers all that a History holds in two ways: by arrival, for a list
// with the newest on top, and by change, so that someone who looked before can
// be told what is new since. The History's lock guards it and its items.
type feed struct {
	epoch    string // tells this feed's numbers from those of another process; it does not change, and is read without the lock
	arrivals int64  // the order of the item that came last
	changes  int64  // the number of the last change
	cleared  int64  // the number of the change that emptied the feed

	items    []*feedItem // by arrival, oldest first; some may be gone
	gone     int         // how many of items are
	newest   *feedItem   // by change; the others follow by older
	rejected []*feedItem // the rejections among items, oldest first
	// The refusals among items, oldest first, of requests with a known write key and
	// of others.
	refused, strangers []*feedItem
}

// A feedItem is a call and what became of it, a call that was not taken, or a
// request that was not taken: one of record, rejection and refusal is set.
type feedItem struct {
	order  int64
	change int64
	gone   bool

	older, newer *feedItem // by change

	record    *Record
	rejection *Rejection
	refusal   *Refusal
	read      *Call     // what could be read of a rejected call
	since     time.Time // when the first request came that the refusal stands for
}

func newFeed() feed { return feed{epoch: strings.ToLower(rand.Text()[:8])} }

// add puts an item on top.
func (f *feed) add(i *feedItem) {
	f.arrivals++
	i.order = f.arrivals
	f.items = append(f.items, i)
	switch {
	case i.rejection != nil:
		f.rejected = append(f.rejected, i)
	case i.refusal != nil && i.refusal.Source != "":
		f.refused = append(f.refused, i)
	case i.refusal != nil:
		f.strangers = append(f.strangers, i)
	}
	f.touch(i)
}

// note says that a record is new, or has changed. One whose call was not accepted
// yet has no place here.
func (f *feed) note(r *Record) {
	switch {
	case r.item.order > 0:
		f.touch(&r.item)
	case r.Seq > 0:
		r.item.record = r
		f.add(&r.item)
	}
}

// touch says that an item has changed.
func (f *feed) touch(i *feedItem) {
	if i.gone {
		return
	}
	f.unlink(i)
	f.changes++
	i.change = f.changes
	if i.older = f.newest; i.older != nil {
		i.older.newer = i
	}
	f.newest = i
}

func (f *feed) unlink(i *feedItem) {
	if f.newest == i {
		f.newest = i.older
	}
	if i.older != nil {
		i.older.newer = i.newer
	}
	if i.newer != nil {
		i.newer.older = i.older
	}
	i.older, i.newer = nil, nil
}

// remove forgets an item.
func (f *feed) remove(i *feedItem) {
	if i.gone {
		return
	}
	f.unlink(i)
	i.gone = true
	i.record, i.rejection, i.refusal, i.read = nil, nil, nil, nil
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
	kept := make([]*feedItem, 0, len(f.items)-f.gone)
	for _, i := range f.items {
		if !i.gone {
			kept = append(kept, i)
		}
	}
	f.items, f.gone = kept, 0
}

// removeOldest forgets the oldest of a kind.
func (f *feed) removeOldest(kind *[]*feedItem) {
	f.remove((*kind)[0])
	(*kind)[0] = nil
	*kind = (*kind)[1:]
}

// clear forgets all items. The numbers go on.
func (f *feed) clear() {
	for _, i := range f.items {
		i.gone = true
	}
	f.changes++
	f.cleared = f.changes
	f.items, f.gone, f.newest, f.rejected, f.refused, f.strangers = nil, 0, nil, nil, nil, nil
}

// held returns how many items there are.
func (f *feed) held() int { return len(f.items) - f.gone }

// from returns the index behind the last item that is older than order.
func (f *feed) from(order int64) int {
	return sort.Search(len(f.items), func(i int) bool { return f.items[i].order >= order })
}

// at returns the item of an order, or nil.
func (f *feed) at(order int64) *feedItem {
	if i := f.from(order); i < len(f.items) && f.items[i].order == order && !f.items[i].gone {
		return f.items[i]
	}
	return nil
}

// position writes how far the feed is, and parsePosition reads it. It is not ok
// where the feed cannot say what is new since.
func (f *feed) position() string {
	return fmt.Sprintf("%s.%d.%d", f.epoch, f.changes, f.arrivals)
}

func (f *feed) parsePosition(s string) (change, order int64, ok bool) {
	epoch, numbers, _ := strings.Cut(s, ".")
	_, err := fmt.Sscanf(numbers, "%d.%d", &change, &order)
	ok = err == nil && epoch == f.epoch && change >= f.cleared && change <= f.changes && order >= 0 && order <= f.arrivals
	return change, order, ok
}

// snapshot copies what others go on changing. The History's lock is held.
func (i *feedItem) snapshot() feedItem {
	s := feedItem{order: i.order, change: i.change, rejection: i.rejection, refusal: i.refusal, read: i.read}
	if i.record != nil {
		r := i.record.clone()
		s.record = &r
	}
	return s
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

// scanChunk is how many items are looked at under the History's lock at a time: to
// look for a text in so many large calls takes some milliseconds.
const scanChunk = 250

// scan shows see every item that came before order, newest first, until it
// returns false. see must be quick and keep only snapshots.
func (h *History) scan(before int64, see func(*feedItem) bool) {
	for {
		h.mu.Lock()
		i := h.feed.from(before) - 1
		for stop := i - scanChunk; i >= 0 && i > stop; i-- {
			if item := h.feed.items[i]; !item.gone && !see(item) {
				h.mu.Unlock()
				return
			}
		}
		if i < 0 {
			h.mu.Unlock()
			return
		}
		before = h.feed.items[i].order + 1
		h.mu.Unlock()
	}
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
