package tracking

import (
	"time"
)

// A Ledger counts the calls of one destination. At any time
//
//	Accepted = Delivered + Failed + Filtered + Pending + Lost
type Ledger struct {
	Destination string `json:"destination"`
	Accepted    int64  `json:"accepted"`
	Delivered   int64  `json:"delivered"`
	Failed      int64  `json:"failed"`
	Filtered    int64  `json:"filtered"`
	Pending     int64  `json:"pending"`
	// Lost is the number of pending calls that were lost because an operator accepted a corrupt
	// store.
	Lost int64 `json:"lost"`
	// OldestPending is the time when the oldest pending call was accepted. It is zero if no call
	// is pending.
	OldestPending time.Time `json:"oldestPending,omitzero"`
}

// Holds reports whether the equation is true and no count is negative. A negative count would hide
// a call that is counted twice.
func (l Ledger) Holds() bool {
	return l.Accepted == l.Delivered+l.Failed+l.Filtered+l.Pending+l.Lost &&
		min(l.Accepted, l.Delivered, l.Failed, l.Filtered, l.Pending, l.Lost) >= 0
}
