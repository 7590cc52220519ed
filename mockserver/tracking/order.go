package tracking

import (
	"fmt"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// An Ordering says in which order the calls of a destination are delivered, see
// docs/webhooks.md.
type Ordering struct {
	// Order is whose calls are delivered one after the other. Defaults to [OrderNone].
	Order Order `json:"order,omitempty"`
	// GiveUpAfter is for how long a call that fails may hold the line of its user, from
	// its first attempt on. Then it is given up. Defaults to [webhook.Window] after it was
	// accepted, which is also the most.
	GiveUpAfter time.Duration `json:"giveUpAfter,omitempty"`
	// OnFailure is what becomes of the line of a user when a call fails. Defaults to
	// [OnFailureHold].
	OnFailure OnFailure `json:"onFailure,omitempty"`
}

// An Order is whose calls are delivered one after the other.
type Order string

// Orders.
const (
	OrderNone Order = "none" // calls are delivered side by side
	OrderUser Order = "user" // those of one user in the order in which they were accepted
)

// An OnFailure is what becomes of the line of a user when a call fails that may succeed
// later.
type OnFailure string

// What may become of a line.
const (
	OnFailureHold     OnFailure = "hold"     // it waits until the call is delivered or given up
	OnFailureOvertake OnFailure = "overtake" // it goes on: later calls overtake the one that fails
)

// IsOrdered reports whether calls are delivered in an order.
func (o Ordering) IsOrdered() bool { return o.Order == OrderUser }

// problem returns what is wrong with the settings, or nil.
func (o Ordering) problem() error {
	switch {
	case o.Order != "" && o.Order != OrderNone && o.Order != OrderUser:
		return &webhook.FieldError{Field: "order", Problem: fmt.Sprintf("is %q", o.Order), Hint: `use "user" or "none"`}
	case o.OnFailure != "" && o.OnFailure != OnFailureHold && o.OnFailure != OnFailureOvertake:
		return &webhook.FieldError{Field: "onFailure", Problem: fmt.Sprintf("is %q", o.OnFailure), Hint: `use "hold" or "overtake"`}
	case o.GiveUpAfter < 0 || o.GiveUpAfter > webhook.Window || o.GiveUpAfter > 0 && o.GiveUpAfter < time.Second:
		return &webhook.FieldError{Field: "giveUpAfter", Problem: fmt.Sprintf("is %v", o.GiveUpAfter), Hint: fmt.Sprintf("use 1s to %v, or leave it out", webhook.Window)}
	case !o.IsOrdered() && o.GiveUpAfter != 0:
		return &webhook.FieldError{Field: "giveUpAfter", Problem: "is set without an order", Hint: `set order to "user", or leave it out`}
	case !o.IsOrdered() && o.OnFailure != "":
		return &webhook.FieldError{Field: "onFailure", Problem: "is set without an order", Hint: `set order to "user", or leave it out`}
	case o.OnFailure == OnFailureOvertake && o.GiveUpAfter != 0:
		return &webhook.FieldError{Field: "giveUpAfter", Problem: "is set, and no call holds a line", Hint: `set onFailure to "hold", or leave it out`}
	}
	return nil
}
