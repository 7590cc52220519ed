package mockserver

import "time"

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
	tallyKinds
)

// A tally counts what happened in each of the last seconds. The History's lock
// guards it.
type tally struct{ seconds [tallySeconds]tallySecond }

// A tallySecond is what happened in one second: how often, by kind.
type tallySecond struct {
	at int64 // Unix time
	n  [tallyKinds]int
}

func (t *tally) add(at time.Time, kind, n int) {
	second := at.Unix()
	s := &t.seconds[((second%tallySeconds)+tallySeconds)%tallySeconds]
	if s.at != second {
		if s.at > second {
			return // longer ago than is kept
		}
		*s = tallySecond{at: second}
	}
	s.n[kind] += n
}

// end counts how a call ended, or did not.
func (t *tally) end(e Ended) {
	if e.Attempt == 0 {
		return // replayed
	}
	kinds := [...]int{StatePending: tallyRetried, StateDelivered: tallyDelivered, StateFailed: tallyFailed, StateFiltered: tallyFiltered}
	if int(e.State) < len(kinds) {
		t.add(e.At, kinds[e.State], 1)
	}
}

// since returns the seconds from first to last in which something happened.
func (t *tally) since(first, last int64) []tallySecond {
	var seconds []tallySecond
	for at := max(first, last-tallySeconds+1); at <= last; at++ {
		if s := t.seconds[((at%tallySeconds)+tallySeconds)%tallySeconds]; s.at == at {
			seconds = append(seconds, s)
		}
	}
	return seconds
}

// seconds returns the seconds from first to last in which something happened, as far
// back as they are counted.
func (h *History) seconds(first, last int64) []tallySecond {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.tally.since(first, last)
}
