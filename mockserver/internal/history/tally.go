package history

import (
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
