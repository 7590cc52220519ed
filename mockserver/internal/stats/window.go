package stats

import (
	"math"
	"strconv"
	"time"
)

// A window counts attempts in slots of equal length.
type window struct {
	slot  time.Duration // length of a slot
	slots []*slot       // a ring; a slot without attempts is nil
}

// A slot counts the attempts that ended in a period.
type slot struct {
	at       int64 // number of the slot, counted from 1970
	attempts uint32
	failed   uint32
	took     histogram
}

// newWindow returns a window that covers span in addition to the current slot.
func newWindow(span, slotLength time.Duration) window {
	return window{slot: slotLength, slots: make([]*slot, span/slotLength+1)}
}

func (w *window) number(t time.Time) int64 { return t.UnixNano() / int64(w.slot) }

// add counts an attempt. class is the histogram bucket of its duration, or -1 if it has none.
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

// at returns the slot with a number, or nil if the number is too old for the window.
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

// sum returns the sum of all slots up to now.
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
	// shortest is the upper bound of the first bucket.
	shortest = 100 * time.Microsecond
	// perDoubling is the number of buckets between a duration and its double.
	perDoubling = 4
	// classes is the number of buckets. The last one is for 90 s, which is more than the longest
	// request.
	classes = 80
)

// A histogram counts durations in buckets. Each bucket is a fifth larger than the previous one.
type histogram [classes]uint32

// classOf returns the bucket of a duration.
func classOf(d time.Duration) int {
	if d <= shortest {
		return 0
	}
	return min(int(math.Ceil(perDoubling*math.Log2(float64(d)/float64(shortest)))), classes-1)
}

// middle returns a duration in the middle of a bucket.
func middle(class int) time.Duration {
	return time.Duration(float64(shortest) * math.Exp2((float64(class)-0.5)/perDoubling))
}

func (h *histogram) add(other *histogram) {
	for class, n := range other {
		h[class] += n
	}
}

// percentile returns the p-th percentile of the durations, or 0 if there are none.
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

// A Span contains the statistics of a period.
type Span struct {
	Attempts int64 `json:"attempts"`
	Failed   int64 `json:"failed"`
	// P50 and P95 are percentiles of the latency of attempts that reached a receiver. They are
	// accurate to 10 %, and 0 if there are no such attempts.
	P50 Latency `json:"p50Ms"`
	P95 Latency `json:"p95Ms"`
}

// A Latency is a duration, encoded in milliseconds.
type Latency time.Duration

// MarshalJSON encodes milliseconds, rounded to microseconds.
func (l Latency) MarshalJSON() ([]byte, error) {
	ms := float64(l) / float64(time.Millisecond)
	return strconv.AppendFloat(nil, math.Round(ms*1000)/1000, 'f', -1, 64), nil
}

// UnmarshalJSON decodes milliseconds.
func (l *Latency) UnmarshalJSON(text []byte) error {
	ms, err := strconv.ParseFloat(string(text), 64)
	*l = Latency(ms * float64(time.Millisecond))
	return err
}
