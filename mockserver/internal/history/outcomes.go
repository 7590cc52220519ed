package history

import (
	"math/bits"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// keptOutcomes is of how many of a destination's newest attempts the outcome is kept.
const keptOutcomes = 64

// maxRecent bounds for how many destinations that is: names come and go.
const maxRecent = 1000

// noteOutcome keeps how an attempt ended. The lock is held.
func (h *History) noteOutcome(e tracking.Ended) {
	if e.Attempt == 0 || e.State == tracking.StateFiltered {
		return // nothing was sent
	}
	r := h.recent[e.Destination]
	if r == nil {
		if len(h.recent) == maxRecent {
			clear(h.recent)
		}
		r = &recentOutcomes{}
		h.recent[e.Destination] = r
	}
	r.n = min(r.n+1, keptOutcomes)
	r.failed <<= 1
	if e.State != tracking.StateDelivered {
		r.failed |= 1
	}
	r.last = e.At
}

// Outcomes returns how many of a destination's newest attempts since a time are
// known, and how many of these failed.
func (h *History) Outcomes(destination string, since time.Time) (attempts, failed int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.recent[destination]
	if r == nil || r.last.Before(since) {
		return 0, 0 // or of an earlier destination of the name
	}
	return r.n, bits.OnesCount64(r.failed)
}
