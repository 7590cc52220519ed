package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"

	analytics "github.com/seed-45eadc4a/analytics-go"
	"github.com/seed-45eadc4a/analytics-go/typed"
)

//go:generate go run github.com/seed-45eadc4a/analytics-go/plan/gen -package main -o events.go plan.yaml

// forms contains the ways to write a call. Each function makes the same Track call with 8
// properties and builds a new message for it, except minimal.
var (
	formNames = []string{"map", "attributes", "generated", "minimal"}
	forms     = map[string]func(*analytics.Client, *order) error{
		"map": byMap, "attributes": byAttributes, "generated": generated, "minimal": minimal,
	}
)

func init() {
	for name, call := range forms {
		clients[name] = func(j job) (*client, error) {
			return open(j.config(), func(c *analytics.Client, _ bool) func(int) error {
				all := orders()
				return func(i int) error { return call(c, all[i%variety]) }
			})
		}
	}
}

// An order contains the values for a call.
type order struct {
	user, id, currency, coupon, shipping, warehouse string
	total                                           float64
	items                                           int
	first                                           bool

	longEvent string // as long as the event and the properties together
}

func orders() (all [variety]*order) {
	for i := range all {
		all[i] = newOrder(i)
	}
	return all
}

func newOrder(i int) *order {
	o := &order{
		user: userID(i), id: fmt.Sprintf("50314b8e-%06d", i), currency: "EUR", coupon: "SPRING-2026",
		shipping: "express", warehouse: "Rotterdam", total: 49.95 + float64(i), items: 3 + i, first: i%2 == 0,
	}
	properties, _ := json.Marshal(o.properties()) // cannot fail for strings, numbers and booleans
	o.longEvent = largeEvent + strings.Repeat("x", len(`"properties":,`)+len(properties))
	return o
}

func (o *order) properties() map[string]interface{} {
	return map[string]interface{}{
		"orderId": o.id, "total": o.total, "currency": o.currency, "items": o.items,
		"coupon": o.coupon, "first": o.first, "shipping": o.shipping, "warehouse": o.warehouse,
	}
}

func byMap(c *analytics.Client, o *order) error {
	return c.Track(&analytics.Track{UserId: o.user, Event: largeEvent, Properties: o.properties()})
}

func byAttributes(c *analytics.Client, o *order) error {
	return c.Track(&analytics.Track{UserId: o.user, Event: largeEvent, Attrs: []slog.Attr{
		slog.String("orderId", o.id), slog.Float64("total", o.total), slog.String("currency", o.currency), slog.Int("items", o.items),
		slog.String("coupon", o.coupon), slog.Bool("first", o.first), slog.String("shipping", o.shipping), slog.String("warehouse", o.warehouse),
	}})
}

func generated(c *analytics.Client, o *order) error {
	return c.Track(OrderCompleted{
		OrderID: o.id, Total: o.total, Currency: OrderCompletedCurrency(o.currency), Items: o.items,
		Coupon: typed.Some(o.coupon), First: typed.Some(o.first), Shipping: typed.Some(o.shipping), Warehouse: typed.Some(o.warehouse),
	}.By(o.user))
}

// minimal makes a call with as many bytes as the others, but without properties. It shows the
// minimum cost of any form.
func minimal(c *analytics.Client, o *order) error {
	return c.Track(&analytics.Track{UserId: o.user, Event: o.longEvent})
}
