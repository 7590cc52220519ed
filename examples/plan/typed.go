package main

import (
	"errors"
	"time"

	"github.com/seed-45eadc4a/analytics-go/examples/plan/events"
	"github.com/seed-45eadc4a/analytics-go/typed"
)

//go:generate go run github.com/seed-45eadc4a/analytics-go/plan/gen -o events/events.go plan.yaml

// VisitTyped is like Visit, but uses the types generated from the plan. Misspelled
// properties and values of the wrong type do not compile.
func (s Shop) VisitTyped(user string) error {
	since := time.Date(2026, time.November, 22, 18, 0, 0, 0, time.UTC)
	item := events.Item{SKU: "TEA-7", Quantity: 2, Price: typed.Some(4.95)}
	c := s.Analytics
	return errors.Join(
		c.Page(events.HomePage{Path: typed.Some("/")}.By(user)),
		c.Identify(events.UserTraits{Email: user + "@shop.example", Loyalty: typed.Some(events.UserTraitsLoyaltyGold), Since: typed.Some(since)}.Of(user)),
		c.Group(events.GroupTraits{Company: "Acme", Seats: typed.Some(7)}.Of("acme", user)),
		c.Track(events.ProductSearched{Query: "tea", Results: typed.Some(12)}.By(user)),
		c.Track(events.ProductViewed{SKU: "TEA-7", Price: typed.Some(4.95)}.By(user)),
		c.Track(events.ProductAdded{SKU: "TEA-7", Quantity: 3}.By(user)),
		c.Track(events.ProductRemoved{SKU: "TEA-7"}.By(user)),
		c.Track(events.CouponEntered{Code: "WELCOME", Valid: false}.By(user)),
		c.Track(events.CheckoutStarted{Total: 9.9, Currency: events.CurrencyEUR}.By(user)),
		c.Track(events.PaymentFailed{Reason: events.PaymentFailedReasonDeclined}.By(user)),
		c.Track(events.OrderCompleted{OrderID: "o-1", Total: 9.9, Currency: events.CurrencyEUR, Items: []events.Item{item}}.By(user)),
		c.Track(events.OrderRefunded{OrderID: "o-1", Amount: 9.9}.By(user)),
	)
}
