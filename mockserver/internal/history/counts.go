package history

import (
	"math/bits"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// tallySeconds is how far back a tally goes.
const tallySeconds = 300

// What a tally counts.
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

// A tally counts what happened in each of the last seconds. The History's lock
// guards it.
type tally struct{ seconds [tallySeconds]Second }

// A Second is what happened in one second: how often, by kind.
type Second struct {
	At int64 // Unix time
	N  [TallyKinds]int
}

func (t *tally) add(at time.Time, kind, n int) {
	second := at.Unix()
	s := &t.seconds[((second%tallySeconds)+tallySeconds)%tallySeconds]
	if s.At != second {
		if s.At > second {
			return // longer ago than is kept
		}
		*s = Second{At: second}
	}
	s.N[kind] += n
}

// end counts how a call ended, or did not.
func (t *tally) end(e tracking.Ended) {
	if e.Attempt == 0 {
		return // replayed
	}
	kinds := [...]int{tracking.StatePending: tallyRetried, tracking.StateDelivered: tallyDelivered, tracking.StateFailed: tallyFailed, tracking.StateFiltered: tallyFiltered}
	if int(e.State) < len(kinds) {
		t.add(e.At, kinds[e.State], 1)
	}
}

// since returns the seconds from first to last in which something happened.
func (t *tally) since(first, last int64) []Second {
	var seconds []Second
	for at := max(first, last-tallySeconds+1); at <= last; at++ {
		if s := t.seconds[((at%tallySeconds)+tallySeconds)%tallySeconds]; s.At == at {
			seconds = append(seconds, s)
		}
	}
	return seconds
}

// maxRecentAttempts is of how many of a destination's newest attempts the outcome is kept.
const maxRecentAttempts = 64

// maxRecentDestinations bounds for how many destinations that is: names come and go.
const maxRecentDestinations = 1000

// recentAttempts is how the newest attempts at calls ended, by destination.
type recentAttempts map[string]*attemptRow

type attemptRow struct {
	n      int       // how many are known
	failed uint64    // a bit for each, the newest the lowest: it is set where the attempt failed
	last   time.Time // when the newest ended
}

// add keeps how an attempt ended.
func (a recentAttempts) add(e tracking.Ended) {
	if e.Attempt == 0 || e.State == tracking.StateFiltered {
		return // nothing was sent
	}
	r := a[e.Destination]
	if r == nil {
		if len(a) == maxRecentDestinations {
			clear(a)
		}
		r = &attemptRow{}
		a[e.Destination] = r
	}
	r.n = min(r.n+1, maxRecentAttempts)
	r.failed <<= 1
	if e.State != tracking.StateDelivered {
		r.failed |= 1
	}
	r.last = e.At
}

// since returns how many of a destination's newest attempts since a time are known, and
// how many of these failed.
func (a recentAttempts) since(destination string, since time.Time) (attempts, failed int) {
	r := a[destination]
	if r == nil || r.last.Before(since) {
		return 0, 0 // or of an earlier destination of the name
	}
	return r.n, bits.OnesCount64(r.failed)
}
