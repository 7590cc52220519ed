package journal

import "github.com/seed-45eadc4a/analytics-go/mockserver/tracking"

// Move takes n calls from one state to another.
func Move(l *tracking.Ledger, n int, from, to tracking.State) {
	*count(l, from) -= int64(n)
	*count(l, to) += int64(n)
}

func count(l *tracking.Ledger, s tracking.State) *int64 {
	switch s {
	case tracking.StateDelivered:
		return &l.Delivered
	case tracking.StateFailed:
		return &l.Failed
	case tracking.StateFiltered:
		return &l.Filtered
	default:
		return &l.Pending
	}
}
