package delivery

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A queueTest is a fair queue with lanes named by letters. "r" is the lane of retries.
type queueTest struct {
	queue fairQueue
	names map[*ticket]string
}

func newQueueTest(maxCalls int) *queueTest {
	return &queueTest{newFairQueue(maxCalls), map[*ticket]string{}}
}

// push adds an entry with calls: "a1" has the calls "a1.0", "a1.1" and so on.
func (q *queueTest) push(entry string, calls int) *gateEntry {
	lane := laneKey{source: entry[:1]}
	if lane.source == "r" {
		lane = laneKey{retries: true}
	}
	e := &gateEntry{lane: lane}
	for i := range calls {
		t := &ticket{entry: e}
		q.names[t] = fmt.Sprintf("%s.%d", entry, i)
		e.waiting = append(e.waiting, t)
	}
	q.queue.begin(lane)
	q.queue.push(e)
	return e
}

// pop begins the next call and returns it, or returns nil.
func (q *queueTest) pop() *ticket {
	e := q.queue.next()
	if e == nil {
		return nil
	}
	return q.queue.pop(e)
}

// order runs all calls one after another and returns their names.
func (q *queueTest) order() string {
	var order []string
	for t := q.pop(); t != nil; t = q.pop() {
		order = append(order, q.names[t])
		q.queue.done(t.entry, outcomeWorking)
	}
	return strings.Join(order, " ")
}

func TestFairQueueLanesTakeTurns(t *testing.T) {
	q := newQueueTest(64)
	q.push("a1", 2)
	q.push("a2", 2)
	q.push("b1", 3)
	assert.Equal(t, "a1.0 b1.0 a2.0 b1.1 a1.1 b1.2 a2.1", q.order())
	assert.Zero(t, q.queue.waiting)
}

func TestFairQueueRetriesHaveAFifth(t *testing.T) {
	q := newQueueTest(64)
	q.push("r1", 4)
	q.push("a1", 10)
	assert.Equal(t, "a1.0 a1.1 a1.2 r1.0 a1.3 a1.4 a1.5 a1.6 r1.1 a1.7 a1.8 a1.9 r1.2 r1.3", q.order())
}

// TestFairQueueFewestInFlight checks that a lane with slow calls gets no more calls in flight than
// other lanes.
func TestFairQueueFewestInFlight(t *testing.T) {
	q := newQueueTest(64)
	q.push("a1", 10) // the test does not end these calls
	slow := []*ticket{q.pop(), q.pop(), q.pop()}
	q.push("b1", 3)
	var began []string
	for range 3 {
		began = append(began, q.names[q.pop()])
	}
	assert.Equal(t, []string{"b1.0", "b1.1", "b1.2"}, began)
	for _, t := range slow {
		q.queue.done(t.entry, outcomeWorking)
	}
	assert.Equal(t, "a1.3", q.names[q.pop()])
}

// TestFairQueueFailingLanes checks that failing lanes leave a quarter of the calls to others.
func TestFairQueueFailingLanes(t *testing.T) {
	for name, test := range map[string]struct {
		outcomes []outcome
		most     int // maximum number of the lane's calls in flight, out of 8
	}{
		"nine fail":             {slices.Repeat([]outcome{outcomeFailed}, downAfter-1), 8},
		"ten fail":              {slices.Repeat([]outcome{outcomeFailed}, downAfter), 6},
		"ten retries fail":      {slices.Repeat([]outcome{outcomeRetryFailed}, downAfter), 6},
		"nothing is known":      {slices.Repeat([]outcome{outcomeUnknown}, downAfter), 8},
		"one is accepted since": {append(slices.Repeat([]outcome{outcomeFailed}, downAfter), outcomeWorking), 8},
	} {
		t.Run(name, func(t *testing.T) {
			q := newQueueTest(8)
			q.push("a1", 100)
			for _, o := range test.outcomes {
				next := q.pop()
				require.NotNil(t, next)
				q.queue.done(next.entry, o)
			}
			inFlight := 0
			for ; inFlight < 8 && q.pop() != nil; inFlight++ {
			}
			assert.Equal(t, test.most, inFlight)
			if inFlight < 8 {
				assert.Nil(t, q.queue.next())
			}
			q.push("b1", 1)
			assert.Equal(t, "b1.0", q.names[q.pop()], "another lane")
		})
	}
}

func TestFairQueueRemovesLines(t *testing.T) {
	q := newQueueTest(64)
	a := q.push("a1", 2)
	q.push("a2", 1)
	b := q.push("b1", 1)
	assert.ElementsMatch(t, []string{"a", "b"}, q.queue.others().Except)
	assert.False(t, q.queue.others().NoRetries)
	q.push("r1", 1)
	assert.True(t, q.queue.others().NoRetries)

	waiting := 0
	for range q.queue.all {
		waiting++
	}
	assert.Equal(t, 4, waiting)
	q.queue.remove(a)
	q.queue.remove(b)
	assert.Equal(t, "a2.0 r1.0", q.order())
	assert.False(t, q.queue.end(a.lane), "the lane has another entry")
	assert.True(t, q.queue.end(a.lane))
	assert.True(t, q.queue.end(b.lane))
	assert.True(t, q.queue.end(laneKey{retries: true}))
	assert.Empty(t, q.queue.lanes)
}

func TestLaneOfEntry(t *testing.T) {
	calls := []tracking.Call{{Source: "web"}}
	assert.Equal(t, laneKey{source: "web"}, laneOf(&journal.Entry{Attempt: 1, Calls: calls}))
	assert.Equal(t, laneKey{retries: true}, laneOf(&journal.Entry{Attempt: 2, Calls: calls}))
	assert.Equal(t, laneKey{retries: true}, laneOf(&journal.Entry{Attempt: 1}), "an entry without calls")
}
