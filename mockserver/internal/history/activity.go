package history

import (
	"strconv"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// An Activity is one thing that happened to an item: it came, or where Attempt or Ended is
// set, a webhook was asked or a destination decided.
type Activity struct {
	Item    Item
	Attempt *tracking.Attempt
	Ended   *tracking.Ended
}

// Activities are what happened since somebody looked, oldest first.
type Activities struct {
	Activities []Activity
	Next       string // goes on from here
	Skipped    int64  // how many more happened, that were left out or are not remembered
}

// oldestActivity is the number of the oldest activity that is remembered.
func (f *Feed) oldestActivity() int64 {
	return max(f.firstActivity, f.activityCount-int64(len(f.activities)))
}

// place says where somebody goes on: the epoch of the feed and the number of the activity
// that comes next.
func (f *Feed) position(next int64) string { return f.epoch + "." + strconv.FormatInt(next, 10) }

// parsePosition returns the number of the activity that comes next for somebody who saw those
// before a place. Where that is no place of this feed, ok is false and it is the oldest.
func (f *Feed) parsePosition(place string) (next int64, ok bool) {
	epoch, number, _ := strings.Cut(place, ".")
	if n, err := strconv.ParseInt(number, 10, 64); err == nil && epoch == f.epoch && n >= 0 && n <= f.activityCount {
		return n, true
	}
	return f.oldestActivity(), false
}

// activity returns what the feed remembers as the nth activity, and whether the item is
// still there.
func (f *Feed) activity(n int64) (a Activity, kept bool) {
	d := f.activities[n%maxActivities]
	e := f.entry(d.order)
	if e == nil {
		return a, false
	}
	switch d.kind {
	case itemAttempted:
		if i := int(d.index) + e.restored.attempts; i < len(e.Record.Attempts) {
			a.Attempt = &e.Record.Attempts[i]
		}
	case itemEnded:
		if i := int(d.index) + e.restored.ends; i < len(e.Record.Ends) {
			a.Ended = &e.Record.Ends[i]
		}
	}
	a.Item = e.Item // a snapshot is made once it is picked
	return a, true
}

// Activities returns what happened since a place and matches, up to limit, and where newest
// is set the newest of these. Without a place of this process these are the newest that
// match, and nothing was skipped. It looks at no more than a chunk under the lock at a time; match is
// called with the lock count and must be quick.
func (h *History) Activities(place string, limit int, newest bool, match func(*Activity) bool) Activities {
	var found Activities
	var next, end int64
	var ok bool
	h.View(func(f *Feed) {
		next, ok = f.parsePosition(place)
		end, newest = f.activityCount, newest || !ok
		if oldest := f.oldestActivity(); next < oldest {
			found.Skipped, next = oldest-next, oldest
		}
	})
	for full := false; next < end && !full; {
		h.View(func(f *Feed) {
			if oldest := f.oldestActivity(); next < oldest { // they made room meanwhile
				found.Skipped += oldest - next
				next = oldest
			}
			for n := 0; n < chunk && next < end && !full; n++ {
				full = found.take(f, next, limit, newest, match)
				if !full {
					next++
				}
			}
		})
	}
	h.View(func(f *Feed) { found.Next = f.position(next) })
	if !ok {
		found.Skipped = 0
	}
	return found
}

// take adds an activity if it matches, and reports whether there was no room for it.
func (l *Activities) take(f *Feed, n int64, limit int, newest bool, match func(*Activity) bool) (full bool) {
	a, kept := f.activity(n)
	switch {
	case !kept:
		l.Skipped++
		return false
	case !match(&a):
		return false
	case len(l.Activities) == limit && !newest:
		return true
	case len(l.Activities) == limit:
		l.Activities = l.Activities[1:]
		l.Skipped++
	}
	a.Item = a.Item.Snapshot()
	l.Activities = append(l.Activities, a)
	return false
}
