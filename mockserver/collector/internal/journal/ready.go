package journal

import (
	"container/heap"
	"time"
)

// maxEarly is how many retries a process takes before they are due.
const maxEarly = 512

// A readyList holds the items that nobody works at: retries, and those that are
// put off, by their time; the others in their order.
type readyList struct {
	timed   timedHeap
	untimed []*item
}

func (l *readyList) push(it *item) {
	if it.due.IsZero() {
		l.untimed = append(l.untimed, it)
	} else {
		heap.Push(&l.timed, it)
	}
}

// first puts an item before the others of its kind.
func (l *readyList) first(it *item) {
	if !it.due.IsZero() {
		heap.Push(&l.timed, it)
		return
	}
	l.untimed = append([]*item{it}, l.untimed...)
}

// pop returns the item that is due, or how long until one is; zero says that
// there is none.
func (l *readyList) pop(now time.Time) (*item, time.Duration) {
	var wait time.Duration
	if len(l.timed) > 0 {
		if wait = l.timed[0].due.Sub(now); wait <= 0 {
			return heap.Pop(&l.timed).(*item), 0
		}
	}
	if len(l.untimed) == 0 {
		return nil, wait
	}
	it := l.untimed[0]
	l.untimed[0] = nil
	l.untimed = l.untimed[1:]
	return it, 0
}

// counts tells how many retries are due, and how many others there are.
func (l *readyList) counts(now time.Time) (due, untimed int) {
	for _, it := range l.timed {
		if !it.due.After(now) {
			due++
		}
	}
	return due, len(l.untimed)
}

func (l *readyList) retries() int { return len(l.timed) }

// take removes the items that match.
func (l *readyList) take(match func(*item) bool) []*item {
	var taken []*item
	var kept readyList
	for _, items := range [][]*item{l.timed, l.untimed} {
		for _, it := range items {
			if match(it) {
				taken = append(taken, it)
			} else {
				kept.push(it)
			}
		}
	}
	*l = kept
	return taken
}

// timedHeap is a container/heap with the item that is due first on top.
type timedHeap []*item

func (h timedHeap) Len() int           { return len(h) }
func (h timedHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h timedHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *timedHeap) Push(x any)        { *h = append(*h, x.(*item)) }
func (h *timedHeap) Pop() any {
	old := *h
	it := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return it
}
