package history

import (
	"math/bits"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// tallySeconds is the number of seconds in a tally.
const tallySeconds = 300

// Counters of a Second.
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

// A tally counts events in each of the last tallySeconds seconds. It is guarded by History.mu.
type tally struct{ seconds [tallySeconds]Second }

// A Second contains the counts of one second.
type Second struct {
	At int64 // Unix time
	N  [TallyKinds]int
}

func (t *tally) add(at time.Time, kind, n int) {
	second := at.Unix()
	s := &t.seconds[((second%tallySeconds)+tallySeconds)%tallySeconds]
	if s.At != second {
		if s.At > second {
			return // the slot is in use for a later second
		}
		*s = Second{At: second}
	}
	s.N[kind] += n
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

// since returns the counts of each second from first to last. It omits seconds without events.
func (t *tally) since(first, last int64) []Second {
	var seconds []Second
	for at := max(first, last-tallySeconds+1); at <= last; at++ {
		if s := t.seconds[((at%tallySeconds)+tallySeconds)%tallySeconds]; s.At == at {
			seconds = append(seconds, s)
		}
	}
	return seconds
}

// maxRecentAttempts is the number of attempts per destination in recentAttempts.
const maxRecentAttempts = 64

// maxRecentDestinations limits the destinations in recentAttempts.
const maxRecentDestinations = 1000

// recentAttempts contains the outcomes of the newest attempts, by destination.
type recentAttempts map[string]*attemptRow

type attemptRow struct {
	n      int       // number of attempts
	failed uint64    // one bit per attempt, set if the attempt failed; the lowest bit is the newest attempt
	last   time.Time // end of the newest attempt
}

func (a recentAttempts) add(e tracking.Ended) {
	if e.Attempt == 0 || e.State == tracking.StateFiltered {
		return // no request was sent
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

// since returns the number of a destination's newest attempts, and the number of failures among
// them. It returns zeros if the newest attempt was before since.
func (a recentAttempts) since(destination string, since time.Time) (attempts, failed int) {
	r := a[destination]
	if r == nil || r.last.Before(since) {
		return 0, 0 // no attempts, or attempts to a previous destination with this name
	}
	return r.n, bits.OnesCount64(r.failed)
}
