package tracking

import (
	"time"
)

// A Ledger is the account of one destination, in calls. At any time
//
//	Accepted = Delivered + Failed + Filtered + Pending + Lost
type Ledger struct {
	Destination string `json:"destination"`
	Accepted    int64  `json:"accepted"`
	Delivered   int64  `json:"delivered"`
	Failed      int64  `json:"failed"`
	Filtered    int64  `json:"filtered"`
	Pending     int64  `json:"pending"`
	// Lost is how many calls were pending when the store was damaged, and went with
	// what could not be read. An operator has accepted that.
	Lost int64 `json:"lost"`
	// OldestPending is when the oldest pending call was accepted; zero if none is.
	OldestPending time.Time `json:"oldestPending,omitzero"`
}

// Holds reports whether the sum is right, and no number is negative: one that is
// hides a call that another counts twice.
func (l Ledger) Holds() bool {
	return l.Accepted == l.Delivered+l.Failed+l.Filtered+l.Pending+l.Lost &&
		min(l.Accepted, l.Delivered, l.Failed, l.Filtered, l.Pending, l.Lost) >= 0
}
