package journal

import (
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A Verification says whether the ledger of one destination is proved by what is
// stored.
type Verification struct {
	// Ledger is counted anew from what is stored, in another way than that which
	// the journal's Ledger returns.
	tracking.Ledger
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
	Call     tracking.Call
	Reason   string
	FailedAt time.Time
	// Attempts is the Attempt of the entry in which the call was given up: it was
	// tried so often at most.
	Attempts int
}
