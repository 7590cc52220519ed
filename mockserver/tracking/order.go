package tracking

import (
	"fmt"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// An Ordering sets the order in which the calls of a destination are delivered. See
// docs/webhooks.md.
type Ordering struct {
	// Order selects whether calls are delivered one after another. Defaults to [OrderNone].
	Order Order `json:"order,omitempty"`
	// GiveUpAfter is how long a failing call may block its user's later calls, counted from its
	// first attempt. After that, the call fails permanently. The default and the maximum are the
	// end of [webhook.Window] after the call was accepted.
	GiveUpAfter time.Duration `json:"giveUpAfter,omitempty"`
	// OnFailure decides whether a failing call blocks its user's later calls. Defaults to
	// [OnFailureHold].
	OnFailure OnFailure `json:"onFailure,omitempty"`
}

// An Order selects whether calls are delivered one after another.
type Order string

// Values of Ordering.Order.
const (
	OrderNone Order = "none" // calls are delivered in parallel
	OrderUser Order = "user" // each user's calls are delivered one after another, in order of acceptance
)

// OnFailure decides whether a temporary failure blocks the user's later calls.
type OnFailure string

// Values of Ordering.OnFailure.
const (
	OnFailureHold     OnFailure = "hold"     // later calls wait until the failing call is delivered or fails permanently
	OnFailureOvertake OnFailure = "overtake" // later calls are delivered before the failing call
)

// IsOrdered reports whether calls are delivered in order.
func (o Ordering) IsOrdered() bool { return o.Order == OrderUser }

// problem returns the first invalid setting, or nil.
func (o Ordering) problem() error {
	switch {
	case o.Order != "" && o.Order != OrderNone && o.Order != OrderUser:
		return &webhook.FieldError{Field: "order", Problem: fmt.Sprintf("is %q", o.Order), Hint: `use "user" or "none"`}
	case o.OnFailure != "" && o.OnFailure != OnFailureHold && o.OnFailure != OnFailureOvertake:
		return &webhook.FieldError{Field: "onFailure", Problem: fmt.Sprintf("is %q", o.OnFailure), Hint: `use "hold" or "overtake"`}
	case o.GiveUpAfter < 0 || o.GiveUpAfter > webhook.Window || o.GiveUpAfter > 0 && o.GiveUpAfter < time.Second:
		return &webhook.FieldError{Field: "giveUpAfter", Problem: fmt.Sprintf("is %v", o.GiveUpAfter), Hint: fmt.Sprintf("use 1s to %v, or omit it", webhook.Window)}
	case !o.IsOrdered() && o.GiveUpAfter != 0:
		return &webhook.FieldError{Field: "giveUpAfter", Problem: "requires an order", Hint: `set order to "user", or omit it`}
	case !o.IsOrdered() && o.OnFailure != "":
		return &webhook.FieldError{Field: "onFailure", Problem: "requires an order", Hint: `set order to "user", or omit it`}
	case o.OnFailure == OnFailureOvertake && o.GiveUpAfter != 0:
		return &webhook.FieldError{Field: "giveUpAfter", Problem: `has no effect with onFailure "overtake"`, Hint: `set onFailure to "hold", or omit it`}
	}
	return nil
}
