package measure

import (
	"math"
	"time"
)

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
