package jetstream

import (
	"slices"
)

// A span is messages of a stream, from first to last.
type span struct{ first, last uint64 }

// contains reports whether all messages of a gap are in one of the spans.
func contains(spans []span, gap span) bool {
	return slices.ContainsFunc(spans, func(s span) bool { return s.first <= gap.first && gap.last <= s.last })
}
