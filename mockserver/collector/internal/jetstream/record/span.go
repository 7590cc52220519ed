package record

import (
	"slices"
)

// A Span is messages of a stream, from first to last.
type Span struct{ First, Last uint64 }

// Contains reports whether all messages of a gap are in one of the spans.
func Contains(spans []Span, gap Span) bool {
	return slices.ContainsFunc(spans, func(s Span) bool { return s.First <= gap.First && gap.Last <= s.Last })
}
