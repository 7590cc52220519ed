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

// Move takes n calls from one state to another.
func Move(l *Ledger, n int, from, to State) {
	*count(l, from) -= int64(n)
	*count(l, to) += int64(n)
}

func count(l *Ledger, s State) *int64 {
	switch s {
	case StateDelivered:
		return &l.Delivered
	case StateFailed:
		return &l.Failed
	case StateFiltered:
		return &l.Filtered
	default:
		return &l.Pending
	}
}

// A Verification says whether the ledger of one destination is proved by what is
// stored.
type Verification struct {
	// Ledger is counted anew from what is stored, in another way than that which
	// the journal's Ledger returns.
	Ledger
	// Losses are the records of Lost, oldest first.
	Losses []Loss `json:"losses,omitempty"`
	// Problems are what contradicts the ledger. None means that it is proved.
	Problems []string `json:"problems,omitempty"`
}

// OK reports whether the ledger is proved.
func (v Verification) OK() bool { return v.Holds() && len(v.Problems) == 0 }

// A Loss is a loss of calls that an operator has accepted.
type Loss struct {
	At    time.Time `json:"at"`
	Calls int64     `json:"calls"`
	Cause string    `json:"cause"` // what was damaged
}

// A FailedCall is a call that a destination has given up.
type FailedCall struct {
	Call     Call
	Reason   string
	FailedAt time.Time
	// Attempts is the Attempt of the entry in which the call was given up: it was
	// tried so often at most.
	Attempts int
}
