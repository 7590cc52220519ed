package event

import "github.com/seed-45eadc4a/analytics-go/mockserver/tracking"

// Counts contains the number of calls in each state.
type Counts struct {
	Pending   int `json:"pending"`
	Delivered int `json:"delivered"`
	Failed    int `json:"failed"`
	Filtered  int `json:"filtered"`
}

// Of returns a pointer to the counter of a state. An unknown state counts as pending.
func (c *Counts) Of(s tracking.State) *int {
	switch s {
	case tracking.StateDelivered:
		return &c.Delivered
	case tracking.StateFailed:
		return &c.Failed
	case tracking.StateFiltered:
		return &c.Filtered
	}
	return &c.Pending
}
