package export

import (
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/users"
)

// Health is the health of the collector.
type Health struct {
	Status    string         `json:"status"`            // ready or unavailable
	Message   string         `json:"message,omitempty"` // why the collector is unavailable
	Version   string         `json:"version"`
	Journal   journal.Health `json:"journal"`
	Forgotten int64          `json:"forgotten"` // number of expired calls
}

// A Proof is a destination's ledger with the result of its check.
type Proof struct {
	journal.Verification
	Holds bool `json:"holds"`
}

// Proofs are the ledgers of all destinations.
type Proofs struct {
	Destinations []Proof          `json:"destinations"`
	Holds        bool             `json:"holds"`
	Lists        []users.LostList `json:"lists,omitzero"` // nil if the ledgers are not recomputed
}

// NewProofs returns the ledgers with the results of their checks.
func NewProofs(accounts []journal.Verification) Proofs {
	p := Proofs{Holds: true, Destinations: []Proof{}}
	for _, v := range accounts {
		p.Destinations = append(p.Destinations, Proof{v, v.OK()})
		p.Holds = p.Holds && v.OK()
	}
	return p
}
