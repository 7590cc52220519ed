package main

import (
	"fmt"
	"net"

	"github.com/posthog/posthog-go"
	v3 "github.com/segmentio/analytics-go/v3"

	analytics "github.com/seed-45eadc4a/analytics-go"
	compat "github.com/seed-45eadc4a/analytics-go/compat/v3"
)

// mark is a character that occurs only in the event's name. The receiver counts it instead of
// parsing the calls.
const mark = '~'

// A workload consists of a kind of call and a batch size.
type workload struct {
	Name  string
	Large bool
	Batch int
}

// key returns the workload's name in figures.json, such as L20.
func (w workload) key() string { return fmt.Sprintf("%c%d", w.Name[0], w.Batch) }

var workloads = []workload{
	{"L, batch 20", true, 20},
	{"L, batch 100", true, 100},
	{"L, batch 640 (about 400 KB)", true, 640},
	{"S, batch 100", false, 100},
}

// variety is the number of different messages of a producer. They are built before the
// measurement.
const variety = 16

// A small message has about 210 bytes as JSON, and a large message about 640.

func smallProperties(i int) map[string]interface{} {
	return map[string]interface{}{"plan": "team", "seats": 3 + i, "trial": false}
}

func largeIntegrations() map[string]interface{} {
	return map[string]interface{}{"All": true, "Webhooks": true, "Mixpanel": false}
}

const (
	smallEvent = string(mark) + "Signed In"
	largeEvent = string(mark) + "Order Completed"
	userAgent  = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
)

func largeContext() map[string]interface{} {
	return map[string]interface{}{
		"ip":        "203.0.113.24",
		"locale":    "nl-NL",
		"userAgent": userAgent,
		"app":       map[string]interface{}{"name": "storefront", "version": "4.12.0"},
		"page":      map[string]interface{}{"path": "/checkout/thanks", "title": "Thank you"},
	}
}

func userID(i int) string { return fmt.Sprintf("user-%08d", 70_000+i) }

func ourTrack(large bool, i int) *analytics.Track {
	if !large {
		return &analytics.Track{UserId: userID(i), Event: smallEvent, Properties: smallProperties(i)}
	}
	return &analytics.Track{
		UserId: userID(i), Event: largeEvent,
		Properties: newOrder(i).properties(), Context: largeContext(), Integrations: largeIntegrations(),
	}
}

// v3Track returns the same call with the types of version 3.
func v3Track(large bool, i int) v3.Track {
	if !large {
		return v3.Track{UserId: userID(i), Event: smallEvent, Properties: smallProperties(i)}
	}
	return v3.Track{
		UserId: userID(i), Event: largeEvent,
		Properties: newOrder(i).properties(), Integrations: largeIntegrations(),
		Context: &v3.Context{
			IP:        net.ParseIP("203.0.113.24"),
			Locale:    "nl-NL",
			UserAgent: userAgent,
			App:       v3.AppInfo{Name: "storefront", Version: "4.12.0"},
			Page:      v3.PageInfo{Path: "/checkout/thanks", Title: "Thank you"},
		},
	}
}

// compatTrack returns the same call with the types of compat/v3.
func compatTrack(large bool, i int) compat.Track {
	if !large {
		return compat.Track{UserId: userID(i), Event: smallEvent, Properties: smallProperties(i)}
	}
	return compat.Track{
		UserId: userID(i), Event: largeEvent,
		Properties: newOrder(i).properties(), Integrations: largeIntegrations(),
		Context: &compat.Context{
			IP:        net.ParseIP("203.0.113.24"),
			Locale:    "nl-NL",
			UserAgent: userAgent,
			App:       compat.AppInfo{Name: "storefront", Version: "4.12.0"},
			Page:      compat.PageInfo{Path: "/checkout/thanks", Title: "Thank you"},
		},
	}
}

// posthogCapture returns the same call for PostHog's library. The library has
// no fields for the context and the integrations, so they are properties.
func posthogCapture(large bool, i int) posthog.Capture {
	c := posthog.Capture{DistinctId: userID(i), Event: smallEvent, Properties: smallProperties(i)}
	if large {
		c.Event, c.Properties = largeEvent, newOrder(i).properties()
		c.Properties["context"] = largeContext()
		c.Properties["integrations"] = largeIntegrations()
	}
	return c
}
