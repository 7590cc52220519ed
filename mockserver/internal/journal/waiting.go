package journal

import (
	"container/heap"
	"iter"
	"slices"
	"sort"
	"time"
)

// freshPerTimed is the number of values without a time that Pop returns for each due value, while
// there are values of both kinds.
const freshPerTimed = 4

// timedPerFresh is the number of due values that PopInOrder returns for each value without a time.
// Due values come first because values without a time often have to wait for due values of the same
// user.
const timedPerFresh = 4

// A WaitingQueue contains values that wait for a destination. Values with a time wait until they are
// due. Each source has a list of its values without a time, sorted by number. The sources take
// turns. Due values get every fifth turn, so neither kind blocks the other. A WaitingQueue is not safe for
// concurrent use.
type WaitingQueue[T any] struct {
	source   func(T) string
	due      func(T) time.Time
	number   func(T) uint64
	timed    timedHeap[T]
	bySource map[string][]T
	order    []string // sources with values without a time; the first has the next turn
	fresh    int      // number of values without a time
	streak   int      // number of values without a time popped since the last due value; if negative, due values since the last value without a time
}

// NewWaitingQueue returns an empty queue. due returns the time of a value, or the zero time. number returns the
// position of a value among all values.
func NewWaitingQueue[T any](source func(T) string, due func(T) time.Time, number func(T) uint64) *WaitingQueue[T] {
	return &WaitingQueue[T]{source: source, due: due, number: number, timed: timedHeap[T]{due: due}, bySource: map[string][]T{}}
}

// Push adds a value. A value without a time is inserted before values of its source with higher
// numbers.
func (q *WaitingQueue[T]) Push(v T) {
	if !q.due(v).IsZero() {
		heap.Push(&q.timed, v)
		return
	}
	source := q.source(v)
	list := q.bySource[source]
	if len(list) == 0 {
		q.order = append(q.order, source)
	}
	at := len(list)
	if n := q.number(v); at > 0 && q.number(list[at-1]) > n {
		at = sort.Search(at, func(i int) bool { return q.number(list[i]) > n })
	}
	q.bySource[source] = slices.Insert(list, at, v)
	q.fresh++
}

// Pop removes and returns the value that has the next turn. It skips due values if noTimed is set, and
// other values of the sources in except. If there is no such value, ok is false, and at is the
// time at which the next value is due, or the zero time.
func (q *WaitingQueue[T]) Pop(now time.Time, except []string, noTimed bool) (v T, at time.Time, ok bool) {
	turn := slices.IndexFunc(q.order, func(source string) bool { return !slices.Contains(except, source) })
	return q.pop(now, turn, !noTimed && len(q.timed.values) > 0, q.streak >= freshPerTimed)
}

// pop removes a value. If turn is not negative, this may be the first value without a time of the
// source at this index. If timed is set, it may be the first due value. If both exist, timedFirst
// decides.
func (q *WaitingQueue[T]) pop(now time.Time, turn int, timed, timedFirst bool) (v T, at time.Time, ok bool) {
	if timed {
		at = q.due(q.timed.values[0])
	}
	switch {
	case timed && !now.Before(at) && (turn < 0 || timedFirst):
		q.streak = min(q.streak, 0) - 1
		return heap.Pop(&q.timed).(T), time.Time{}, true
	case turn < 0:
		return v, at, false
	}
	q.streak = min(max(q.streak, 0)+1, freshPerTimed)
	return q.popFresh(turn), time.Time{}, true
}

// PopInOrder is like Pop, but sources do not take turns. Of the values without a time, it pops the
// value with the lowest number, if the number is at most limit. While there are due values, such
// values get every fifth turn.
func (q *WaitingQueue[T]) PopInOrder(now time.Time, limit uint64) (v T, at time.Time, ok bool) {
	turn, first := q.first()
	if turn >= 0 && first > limit {
		turn = -1
	}
	return q.pop(now, turn, len(q.timed.values) > 0, q.streak > -timedPerFresh)
}

// First returns the lowest number of the values without a time. ok is false if all values have a time.
func (q *WaitingQueue[T]) First() (number uint64, ok bool) {
	turn, number := q.first()
	return number, turn >= 0
}

// first returns the index in order of the source with the lowest number, and this number. If there
// are no values without a time, turn is -1.
func (q *WaitingQueue[T]) first() (turn int, number uint64) {
	turn = -1
	for i, source := range q.order {
		if n := q.number(q.bySource[source][0]); turn < 0 || n < number {
			turn, number = i, n
		}
	}
	return turn, number
}

// popFresh removes the first value of the source at index turn, and moves the source to the end.
func (q *WaitingQueue[T]) popFresh(turn int) (v T) {
	source := q.order[turn]
	q.order = slices.Delete(q.order, turn, turn+1)
	list := q.bySource[source]
	v, list[0] = list[0], v // releases the memory of v
	if list = list[1:]; len(list) > 0 {
		q.order = append(q.order, source)
		q.bySource[source] = list
	} else {
		delete(q.bySource, source)
	}
	q.fresh--
	return v
}

// Fresh returns the number of values without a time.
func (q *WaitingQueue[T]) Fresh() int { return q.fresh }

// Timed returns the number of values with a time.
func (q *WaitingQueue[T]) Timed() int { return len(q.timed.values) }

// Due returns the number of values that are due.
func (q *WaitingQueue[T]) Due(now time.Time) (n int) {
	for _, v := range q.timed.values {
		if !q.due(v).After(now) {
			n++
		}
	}
	return n
}

// Next yields up to n due values that Pop and PopInOrder will return soon, in no particular order.
func (q *WaitingQueue[T]) Next(now time.Time, n int) iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, v := range q.timed.values[:min(n, len(q.timed.values))] { // the top of the heap
			if !q.due(v).After(now) && !yield(v) {
				return
			}
		}
	}
}

// All yields all values, in no particular order.
func (q *WaitingQueue[T]) All(yield func(T) bool) {
	for _, v := range q.timed.values {
		if !yield(v) {
			return
		}
	}
	for _, list := range q.bySource {
		for _, v := range list {
			if !yield(v) {
				return
			}
		}
	}
}

// Take removes and returns the values that match.
func (q *WaitingQueue[T]) Take(match func(T) bool) (taken []T) {
	kept := NewWaitingQueue(q.source, q.due, q.number)
	kept.streak = q.streak
	keep := func(v T) {
		if match(v) {
			taken = append(taken, v)
		} else {
			kept.Push(v)
		}
	}
	for _, v := range q.timed.values {
		keep(v)
	}
	for _, source := range q.order {
		for _, v := range q.bySource[source] {
			keep(v)
		}
	}
	*q = *kept
	return taken
}

// timedHeap implements heap.Interface. The value with the earliest time is on top.
type timedHeap[T any] struct {
	due    func(T) time.Time
	values []T
}

func (h *timedHeap[T]) Len() int           { return len(h.values) }
func (h *timedHeap[T]) Less(i, j int) bool { return h.due(h.values[i]).Before(h.due(h.values[j])) }
func (h *timedHeap[T]) Swap(i, j int)      { h.values[i], h.values[j] = h.values[j], h.values[i] }
func (h *timedHeap[T]) Push(v any)         { h.values = append(h.values, v.(T)) }
func (h *timedHeap[T]) Pop() any {
	last := len(h.values) - 1
	v := h.values[last]
	h.values[last] = *new(T)
	h.values = h.values[:last]
	return v
}
