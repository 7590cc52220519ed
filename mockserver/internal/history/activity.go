package history

import (
	"strconv"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// An Activity is an event of an item. If Attempt is set, it is a request to a webhook; if Ended is
// set, it is an outcome; otherwise it is the arrival of the item.
type Activity struct {
	Item    Item
	Attempt *tracking.Attempt
	Ended   *tracking.Ended
}

// Activities contains activities after a position, oldest first.
type Activities struct {
	Activities []Activity
	Next       string // position after these activities
	Skipped    int64  // number of activities that were left out or have expired
}

// oldestActivity returns the number of the oldest retained activity.
func (f *Feed) oldestActivity() int64 {
	return max(f.firstActivity, f.activityCount-int64(len(f.activities)))
}

// position returns the position before an activity. It consists of the epoch of the feed and the
// number of the activity.
func (f *Feed) position(next int64) string { return f.epoch + "." + strconv.FormatInt(next, 10) }

// parsePosition returns the number of the next activity. If the position is not from this
// feed, ok is false and next is the oldest activity.
func (f *Feed) parsePosition(position string) (next int64, ok bool) {
	epoch, number, _ := strings.Cut(position, ".")
	if n, err := strconv.ParseInt(number, 10, 64); err == nil && epoch == f.epoch && n >= 0 && n <= f.activityCount {
		return n, true
	}
	return f.oldestActivity(), false
}

// activity returns the activity with number n. retained is false if its item has expired.
func (f *Feed) activity(n int64) (a Activity, retained bool) {
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
	a.Item = e.Item // the caller copies the item
	return a, true
}

// Activities returns up to limit matching activities after a position. If newest is set, or if the
// position is from another process, it returns the newest matching activities. If the position is
// from another process, Skipped is 0. match is called with the lock held and must be fast. The
// lock is released between chunks.
func (h *History) Activities(position string, limit int, newest bool, match func(*Activity) bool) Activities {
	var found Activities
	var next, end int64
	var ok bool
	h.View(func(f *Feed) {
		next, ok = f.parsePosition(position)
		end, newest = f.activityCount, newest || !ok
	})
	for full := false; next < end && !full; {
		h.View(func(f *Feed) {
			if oldest := f.oldestActivity(); next < oldest { // some activities have expired
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
	found.Next = h.feed.position(next)
	if !ok {
		found.Skipped = 0
	}
	return found
}

// take adds an activity if it matches. full reports that there was no room for it.
func (l *Activities) take(f *Feed, n int64, limit int, newest bool, match func(*Activity) bool) (full bool) {
	a, retained := f.activity(n)
	switch {
	case !retained:
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
