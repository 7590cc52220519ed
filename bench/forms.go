package main

import (
	"fmt"
	"log/slog"

	analytics "github.com/seed-45eadc4a/analytics-go"
	"github.com/seed-45eadc4a/analytics-go/bench/events"
	"github.com/seed-45eadc4a/analytics-go/typed"
)

// The forms of a call, each a client of its own: the same Track of 8 properties, built for
// every call, as programs do.
var (
	formNames = []string{"map", "attributes", "generated"}
	forms     = map[string]func(*analytics.Client, *order) error{"map": byMap, "attributes": byAttributes, "generated": generated}
)

func init() {
	for name, call := range forms {
		clients[name] = func(endpoint string, o setup) (*client, error) { return newForm(call, endpoint, o) }
	}
}

// An order is what the calls are made of.
type order struct {
	user, id, currency, coupon, shipping, warehouse string
	total                                           float64
	items                                           int
	first                                           bool
}

func orders() (all [variety]order) {
	for i := range all {
		all[i] = order{
			user: userID(i), id: fmt.Sprintf("50314b8e-%06d", i), currency: "EUR", coupon: "SPRING-2026",
			shipping: "express", warehouse: "Rotterdam", total: 49.95 + float64(i), items: 3 + i, first: i%2 == 0,
		}
	}
	return all
}

func byMap(c *analytics.Client, o *order) error {
	return c.Track(&analytics.Track{UserId: o.user, Event: largeEvent, Properties: map[string]interface{}{
		"orderId": o.id, "total": o.total, "currency": o.currency, "items": o.items,
		"coupon": o.coupon, "first": o.first, "shipping": o.shipping, "warehouse": o.warehouse,
	}})
}

func byAttributes(c *analytics.Client, o *order) error {
	return c.Track(&analytics.Track{UserId: o.user, Event: largeEvent, Attrs: []slog.Attr{
		slog.String("orderId", o.id), slog.Float64("total", o.total), slog.String("currency", o.currency), slog.Int("items", o.items),
		slog.String("coupon", o.coupon), slog.Bool("first", o.first), slog.String("shipping", o.shipping), slog.String("warehouse", o.warehouse),
	}})
}

func generated(c *analytics.Client, o *order) error {
	return c.Track(events.OrderCompleted{
		OrderID: o.id, Total: o.total, Currency: events.OrderCompletedCurrency(o.currency), Items: o.items,
		Coupon: typed.Some(o.coupon), First: typed.Some(o.first), Shipping: typed.Some(o.shipping), Warehouse: typed.Some(o.warehouse),
	}.By(o.user))
}

func newForm(call func(*analytics.Client, *order) error, endpoint string, o setup) (*client, error) {
	c, err := analytics.NewWithConfig("bench-write-key", o.config(endpoint))
	if err != nil {
		return nil, err
	}
	return &client{
		producer: func(bool) func(int) error {
			all := orders()
			return func(i int) error { return call(c, &all[i%variety]) }
		},
		close: c.Close,
		lost: func() int64 {
			s := c.Stats()
			return s.Dropped.Total() + s.Pending + s.Rejected.Total()
		},
	}, nil
}

// forms has the client make calls in each form, and says what they cost beside those by map.
func (o *options) forms() error {
	samples := map[string][]sample{}
	for round := range o.rounds {
		for i := range formNames {
			name := formNames[(i+round)%len(formNames)]
			s, err := o.measure(round, job{Client: name, Batch: 640, Patient: true, Duration: o.duration}, nil)
			if err != nil {
				return err
			}
			samples[name] = append(samples[name], s)
		}
	}
	head("A Track of 8 properties, built for each call, in batches of 640", "form", "CPU µs a call", "÷ by map", "allocations a call")
	for _, name := range formNames {
		row(name, fmt.Sprintf("%.2f", median(samples[name], cpuPerCall)),
			fmt.Sprintf("%.2f", median(samples[name], cpuPerCall)/median(samples[formNames[0]], cpuPerCall)),
			fmt.Sprintf("%.2f", median(samples[name], func(s sample) float64 { return s.each(float64(s.Mallocs)) })))
	}
	return nil
}
