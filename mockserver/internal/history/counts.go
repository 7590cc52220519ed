package history

import (
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

const (
	// tallySeconds is the number of seconds in a tally.
	tallySeconds = 300
	// tallyMinutes is the number of minutes in a tally.
	tallyMinutes = 24 * 60
)

// Counters of an Interval.
const (
	tallyAccepted = iota
	tallyRepeated
	tallyRejected
	tallyDelivered
	tallyRetried
	tallyFailed
	tallyFiltered
	TallyKinds
)

// A tally counts events in each of the last seconds and minutes. It is guarded by History.mu.
type tally struct {
	seconds [tallySeconds]Interval
	minutes [tallyMinutes]Interval
}

// An Interval contains the counts of a second or a minute.
type Interval struct {
	At int64 // Unix time of its start
	N  [TallyKinds]int
}

func (t *tally) add(at time.Time, kind, n int) {
	addTo(t.seconds[:], 1, at.Unix(), kind, n)
	addTo(t.minutes[:], 60, at.Unix(), kind, n)
}

// addTo adds to a ring of intervals of step seconds.
func addTo(ring []Interval, step, at int64, kind, n int) {
	i := slotOf(ring, step, at)
	if at -= at % step; i.At != at {
		if i.At > at {
			return // the slot is in use for a later interval
		}
		*i = Interval{At: at}
	}
	i.N[kind] += n
}

func slotOf(ring []Interval, step, at int64) *Interval {
	return &ring[uint64(at/step)%uint64(len(ring))]
}

// end counts an outcome of a call.
func (t *tally) end(e tracking.Ended) {
	if e.Attempt == 0 {
		return // the start of a replay is not an outcome
	}
	kinds := [...]int{tracking.StatePending: tallyRetried, tracking.StateDelivered: tallyDelivered, tracking.StateFailed: tallyFailed, tracking.StateFiltered: tallyFiltered}
	if int(e.State) < len(kinds) {
		t.add(e.At, kinds[e.State], 1)
	}
}

// since returns the counts of each interval from first to last. It omits intervals without events.
func since(ring []Interval, step, first, last int64) []Interval {
	var found []Interval
	last -= last % step
	for at := max(first-first%step, last-step*int64(len(ring)-1)); at <= last; at += step {
		if i := slotOf(ring, step, at); i.At == at {
			found = append(found, *i)
		}
	}
	return found
}

// maxRecentAttempts is the number of attempts per destination in recentAttempts.
const maxRecentAttempts = 64

// maxRecentDestinations limits the destinations in recentAttempts.
const maxRecentDestinations = 1000

// recentAttempts contains the outcomes of the newest attempts, by destination.
type recentAttempts map[string]*attemptRow

type attemptRow struct {
	n    int // number of attempts
	ends [maxRecentAttempts]struct {
		at     time.Time
		failed bool
	} // attempt i is at index i%maxRecentAttempts
}

func (a recentAttempts) add(e tracking.Ended) {
	if e.Attempt == 0 || e.State == tracking.StateFiltered || e.Shared {
		return // no request was sent, or another call of the batch counts
	}
	r := a[e.Destination]
	if r == nil {
		if len(a) == maxRecentDestinations {
			clear(a)
		}
		r = &attemptRow{}
		a[e.Destination] = r
	}
	end := &r.ends[r.n%maxRecentAttempts]
	end.at, end.failed = e.At, e.State != tracking.StateDelivered
	r.n++
}

// since returns the number of a destination's newest attempts that ended after a time, and the number
// of failures among them.
func (a recentAttempts) since(destination string, since time.Time) (attempts, failed int) {
	r := a[destination]
	if r == nil {
		return 0, 0
	}
	for _, end := range r.ends[:min(r.n, maxRecentAttempts)] {
		if end.at.Before(since) {
			continue
		}
		if attempts++; end.failed {
			failed++
		}
	}
	return attempts, failed
}
