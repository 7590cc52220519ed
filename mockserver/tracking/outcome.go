package tracking

import (
	"fmt"
	"slices"
)

// An Outcome is what became of one call at one destination.
type Outcome struct {
	State State `json:"state"`
	// Reason says why, for calls that were filtered or failed, or are pending.
	Reason string `json:"reason,omitempty"`
	// Note is for the next attempt at a call that is left pending, which finds it
	// in Entry.Notes. The journal keeps it as it is; it has at most 64 bytes of
	// ASCII, without a comma or white space.
	Note string `json:"note,omitempty"`
}

// A State is where a call stands with one destination.
type State uint8

// The states of a call. Each call that was accepted for a destination is in
// exactly one of them.
const (
	StatePending   State = iota // not yet tried, being tried, or waiting for its next attempt
	StateDelivered              // a webhook took it
	StateFailed                 // given up, for a reason; kept for replay
	StateFiltered               // not meant for this destination
)

var stateNames = [...]string{StatePending: "pending", StateDelivered: "delivered", StateFailed: "failed", StateFiltered: "filtered"}

// String returns the state's name in lower case.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "unknown"
}

// MarshalText returns String.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (s *State) UnmarshalText(text []byte) error {
	if i := slices.Index(stateNames[:], string(text)); i >= 0 {
		*s = State(i)
		return nil
	}
	return fmt.Errorf("mockserver: %.40q is no state: use pending, delivered, failed or filtered", text)
}
