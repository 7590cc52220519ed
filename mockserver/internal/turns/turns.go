// Package turns decides what a destination works at next.
package turns

import (
	"container/heap"
	"slices"
	"sort"
	"time"
)

// freshPerTimed is how many values without a time are popped for one with a time,
// while there are both.
const freshPerTimed = 4

// timedPerFresh is how many values with a time are popped for one without where sources
// take no turns: what waits behind a value with a time would be popped for nothing.
const timedPerFresh = 4

// A Queue holds what waits for a destination. Values that have a time wait for it;
// the others stand in a line for each source. The lines take turns, and those whose
// time has come have every fifth turn, so that none of them keeps the others back
// however much it has. A line is in the order of its numbers. A Queue is not safe for
// concurrent use.
type Queue[T any] struct {
	source func(T) string
	due    func(T) time.Time
	number func(T) uint64
	timed  timedHeap[T]
	lines  map[string][]T
	order  []string // the sources that have a line; the first has the next turn
	fresh  int      // values in lines
	streak int      // of them popped since the last with a time; negative: of those with a time since the last of them
}

// New returns an empty queue. due returns the zero time for values that have none, and
// number the place of a value in the order of all.
func New[T any](source func(T) string, due func(T) time.Time, number func(T) uint64) *Queue[T] {
	return &Queue[T]{source: source, due: due, number: number, timed: timedHeap[T]{due: due}, lines: map[string][]T{}}
}

// Push adds a value. One without a time comes before those of its source that have
// higher numbers.
func (q *Queue[T]) Push(v T) {
	if !q.due(v).IsZero() {
		heap.Push(&q.timed, v)
		return
	}
	source := q.source(v)
	line := q.lines[source]
	if len(line) == 0 {
		q.order = append(q.order, source)
	}
	at := len(line)
	if n := q.number(v); at > 0 && q.number(line[at-1]) > n {
		at = sort.Search(at, func(i int) bool { return q.number(line[i]) > n })
	}
	q.lines[source] = slices.Insert(line, at, v)
	q.fresh++
}

// Pop takes out the value whose turn it is now: none with a time if noTimed is set,
// and none without of the sources in except. If it is not ok there is no such value,
// and at is when the next may be due; the zero time if none has a time.
func (q *Queue[T]) Pop(now time.Time, except []string, noTimed bool) (v T, at time.Time, ok bool) {
	turn := slices.IndexFunc(q.order, func(source string) bool { return !slices.Contains(except, source) })
	return q.pop(now, turn, !noTimed && len(q.timed.values) > 0, q.streak >= freshPerTimed)
}

// pop takes out the first value of the source with the turn, if that is one, or, if timed,
// the first whose time has come. Where there are both, timedFirst says which.
func (q *Queue[T]) pop(now time.Time, turn int, timed, timedFirst bool) (v T, at time.Time, ok bool) {
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
	return q.popLine(turn), time.Time{}, true
}

// PopInOrder takes out the value whose turn it is now if sources take none: of those
// without a time the one with the lowest number, if that is limit at most. It has every
// fifth turn while there are values whose time has come. It returns what Pop does.
func (q *Queue[T]) PopInOrder(now time.Time, limit uint64) (v T, at time.Time, ok bool) {
	line, first := q.first()
	if line >= 0 && first > limit {
		line = -1
	}
	return q.pop(now, line, len(q.timed.values) > 0, q.streak > -timedPerFresh)
}

// First returns the lowest number of the values without a time. It is not ok if there
// are none.
func (q *Queue[T]) First() (number uint64, ok bool) {
	line, number := q.first()
	return number, line >= 0
}

// first returns the place in order of the source whose first value has the lowest
// number, and that; or -1.
func (q *Queue[T]) first() (line int, number uint64) {
	line = -1
	for i, source := range q.order {
		if n := q.number(q.lines[source][0]); line < 0 || n < number {
			line, number = i, n
		}
	}
	return line, number
}

// popLine takes out the first value of the source with a turn, which is the last one
// then.
func (q *Queue[T]) popLine(turn int) (v T) {
	source := q.order[turn]
	q.order = slices.Delete(q.order, turn, turn+1)
	line := q.lines[source]
	v, line[0] = line[0], v // it is not to be kept in memory
	if line = line[1:]; len(line) > 0 {
		q.order = append(q.order, source)
		q.lines[source] = line
	} else {
		delete(q.lines, source)
	}
	q.fresh--
	return v
}

// Fresh returns how many values have no time.
func (q *Queue[T]) Fresh() int { return q.fresh }

// Timed returns how many values have a time.
func (q *Queue[T]) Timed() int { return len(q.timed.values) }

// Due returns how many values have a time that has come.
func (q *Queue[T]) Due(now time.Time) (n int) {
	for _, v := range q.timed.values {
		if !q.due(v).After(now) {
			n++
		}
	}
	return n
}

// All yields every value, in no order.
func (q *Queue[T]) All(yield func(T) bool) {
	for _, v := range q.timed.values {
		if !yield(v) {
			return
		}
	}
	for _, line := range q.lines {
		for _, v := range line {
			if !yield(v) {
				return
			}
		}
	}
}

// Take takes out the values that match.
func (q *Queue[T]) Take(match func(T) bool) (taken []T) {
	kept := New(q.source, q.due, q.number)
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
		for _, v := range q.lines[source] {
			keep(v)
		}
	}
	*q = *kept
	return taken
}

// timedHeap is a container/heap with the value that is due first on top.
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
