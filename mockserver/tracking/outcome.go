package tracking

import (
	"fmt"
	"slices"
)

// An Outcome is the result of a call at one destination.
type Outcome struct {
	State State `json:"state"`
	// Reason explains why the call was filtered, has failed or is still pending.
	Reason string `json:"reason,omitempty"`
	// Note contains data for the next attempt at a pending call. The journal returns it unchanged
	// in Entry.Notes. It has at most 64 bytes of ASCII without commas and white space.
	Note string `json:"note,omitempty"`
}

// A State is the state of a call at one destination.
type State uint8

// States of a call. Each accepted call has exactly one state at each of its destinations.
const (
	StatePending   State = iota // not attempted yet, in flight, or waiting for a retry
	StateDelivered              // accepted by a webhook
	StateFailed                 // failed permanently; kept for replay
	StateFiltered               // not sent to this destination
)

var stateNames = [...]string{StatePending: "pending", StateDelivered: "delivered", StateFailed: "failed", StateFiltered: "filtered"}

// String returns the lower-case name of the state.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "unknown"
}

// MarshalText returns the name of the state.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText parses the name of a state.
func (s *State) UnmarshalText(text []byte) error {
	if i := slices.Index(stateNames[:], string(text)); i >= 0 {
		*s = State(i)
		return nil
	}
	return fmt.Errorf("mockserver: invalid state %.40q: use pending, delivered, failed or filtered", text)
}
