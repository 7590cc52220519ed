package measure

import (
	"math"
	"strconv"
	"time"
)

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
