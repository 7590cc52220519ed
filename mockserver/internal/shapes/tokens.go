package shapes

import "time"

const (
	// looksPerSecond is how many tokens come back in a second, and maxTokens how many
	// there are at most. A look takes one, and one more for each tokenBytes of the call.
	looksPerSecond = 2000
	maxTokens      = 8000
	tokenBytes     = 2048
	// fewLooks is how many calls of an event a second may have the third quarter of the
	// tokens. The last is for the first call of each.
	fewLooks = 8
)

// tokens bound the work of looking at calls.
type tokens struct {
	spent float64
	at    time.Time
}

func (t *tokens) refill(now time.Time) {
	t.spent = max(0, t.spent-looksPerSecond*now.Sub(t.at).Seconds())
	t.at = now
}

// take takes tokens for a call of an event of which so many were looked at in this second,
// if there are enough: the fewer they are, the more tokens may be spent.
func (t *tokens) take(n float64, looks int) bool {
	most := float64(maxTokens)
	switch {
	case looks >= fewLooks:
		most *= 0.5
	case looks > 0:
		most *= 0.75
	}
	if t.spent+n > most {
		return false
	}
	t.spent += n
	return true
}
