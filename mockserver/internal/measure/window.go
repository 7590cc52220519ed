package measure

import (
	"math"
	"strconv"
	"time"
)

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

const (
	// shortest is what the first class of a histogram ends with.
	shortest = 100 * time.Microsecond
	// perDoubling is how many classes a duration passes while it doubles.
	perDoubling = 4
	// classes reach up to 90 s, which is longer than any request may take.
	classes = 80
)

// A histogram counts durations in classes that grow by a fifth.
type histogram [classes]uint32

// classOf returns the class of a duration.
func classOf(d time.Duration) int {
	if d <= shortest {
		return 0
	}
	return min(int(math.Ceil(perDoubling*math.Log2(float64(d)/float64(shortest)))), classes-1)
}

// middle returns a duration in the middle of a class.
func middle(class int) time.Duration {
	return time.Duration(float64(shortest) * math.Exp2((float64(class)-0.5)/perDoubling))
}

func (h *histogram) add(other *histogram) {
	for class, n := range other {
		h[class] += n
	}
}

// percentile returns the duration that p of a hundred do not exceed, or 0 where there are
// none.
func (h *histogram) percentile(p int) time.Duration {
	var total uint64
	for _, n := range h {
		total += uint64(n)
	}
	rank := (total*uint64(p) + 99) / 100
	var seen uint64
	for class, n := range h {
		if seen += uint64(n); seen >= rank && seen > 0 {
			return middle(class)
		}
	}
	return 0
}

// A Span is what happened at a destination in a span of time.
type Span struct {
	Attempts int64 `json:"attempts"`
	Failed   int64 `json:"failed"`
	// P50 and P95 are what half of the attempts that reached a receiver did not exceed, and
	// 95 of a hundred, to a tenth; 0 where there were none.
	P50 Latency `json:"p50Ms"`
	P95 Latency `json:"p95Ms"`
}

// A Latency is a duration that is written in milliseconds.
type Latency time.Duration

// MarshalJSON writes milliseconds, to a microsecond.
func (l Latency) MarshalJSON() ([]byte, error) {
	ms := float64(l) / float64(time.Millisecond)
	return strconv.AppendFloat(nil, math.Round(ms*1000)/1000, 'f', -1, 64), nil
}

// UnmarshalJSON reads milliseconds.
func (l *Latency) UnmarshalJSON(text []byte) error {
	ms, err := strconv.ParseFloat(string(text), 64)
	*l = Latency(ms * float64(time.Millisecond))
	return err
}
