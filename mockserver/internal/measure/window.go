package measure

import "time"

// A window counts what happened in the newest slots of time.
type window struct {
	slot  time.Duration // how long each is
	slots []*slot       // a ring; nil where nothing happened
}

// A slot is what happened in it.
type slot struct {
	at       int64 // how many slots came before it since 1970
	attempts uint32
	failed   uint32
	took     histogram
}

// newWindow returns a window of a span of time: its last slot, which goes on, and the full
// ones before.
func newWindow(span, slotLength time.Duration) window {
	return window{slot: slotLength, slots: make([]*slot, span/slotLength+1)}
}

func (w *window) number(t time.Time) int64 { return t.UnixNano() / int64(w.slot) }

// add counts an attempt that ended at a time. class is that of its duration, or negative
// where it has none.
func (w *window) add(at time.Time, failed bool, class int) {
	s := w.at(w.number(at))
	if s == nil {
		return
	}
	s.attempts++
	if failed {
		s.failed++
	}
	if class >= 0 {
		s.took[class]++
	}
}

// at returns the slot of a number, or nil where it is longer ago than is kept.
func (w *window) at(number int64) *slot {
	place := &w.slots[uint64(number)%uint64(len(w.slots))]
	switch {
	case *place == nil:
		*place = &slot{at: number}
	case (*place).at > number:
		return nil
	case (*place).at < number:
		**place = slot{at: number}
	}
	return *place
}

// sum sums up the slots until now.
func (w *window) sum(now time.Time) (s Span) {
	newest := w.number(now)
	var took histogram
	for _, of := range w.slots {
		if of == nil || of.at > newest || of.at <= newest-int64(len(w.slots)) {
			continue
		}
		s.Attempts += int64(of.attempts)
		s.Failed += int64(of.failed)
		took.add(&of.took)
	}
	s.P50, s.P95 = Latency(took.percentile(50)), Latency(took.percentile(95))
	return s
}
