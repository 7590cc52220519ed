// Package main is an example of a tracking plan. plan.yaml describes the calls of a shop,
// shop.go sends them, and shop_test.go checks them. The example is a separate module. In its
// directory, run:
//
//	go run .
//	go test .
package main

import (
	"errors"
	"time"

	analytics "github.com/seed-45eadc4a/analytics-go"
)

type properties = map[string]interface{}

// A Shop sends calls about its customers.
type Shop struct{ Analytics *analytics.Client }

func (s Shop) track(user, event string, p properties) error {
	return s.Analytics.Track(&analytics.Track{UserId: user, Event: event, Properties: p})
}

// Visit sends the calls of one visit: a customer's payment fails, then the customer buys tea and
// returns it.
func (s Shop) Visit(user string) error {
	item := properties{"sku": "TEA-7", "quantity": 2, "price": 4.95}
	return errors.Join(
		s.Analytics.Page(&analytics.Page{UserId: user, Name: "Home", Traits: properties{"path": "/"}}),
		s.Analytics.Identify(&analytics.Identify{UserId: user, Traits: properties{
			"email": user + "@shop.example", "loyalty": "gold", "since": time.Date(2026, time.November, 22, 18, 0, 0, 0, time.UTC),
		}}),
		s.Analytics.Group(&analytics.Group{UserId: user, GroupId: "acme", Traits: properties{"company": "Acme", "seats": 7}}),
		s.track(user, "Product Searched", properties{"query": "tea", "results": 12}),
		s.track(user, "Product Viewed", properties{"sku": "TEA-7", "price": 4.95}),
		s.track(user, "Product Added", properties{"sku": "TEA-7", "quantity": 3}),
		s.track(user, "Product Removed", properties{"sku": "TEA-7"}),
		s.track(user, "Coupon Entered", properties{"code": "WELCOME", "valid": false}),
		s.track(user, "Checkout Started", properties{"total": 9.9, "currency": "EUR"}),
		s.track(user, "Payment Failed", properties{"reason": "declined"}),
		s.track(user, "Order Completed", properties{
			"orderId": "o-1", "total": 9.9, "currency": "EUR", "coupon": nil, "items": []properties{item},
		}),
		s.track(user, "Order Refunded", properties{"orderId": "o-1", "amount": 9.9}),
	)
}

// Mistakes sends calls that violate the plan.
func (s Shop) Mistakes(user string) error {
	return errors.Join(
		s.track(user, "order_completed", nil),
		s.track(user, "Order Completed", properties{
			"oderId": "o-1", "total": "9.90", "currency": "eur", "items": []properties{{"sku": "tea", "quantity": 0}},
		}),
		s.Analytics.Identify(&analytics.Identify{UserId: user, Traits: properties{"email": "nobody"}}),
	)
}
