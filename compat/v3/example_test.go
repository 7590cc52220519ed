package analytics_test

import (
	"fmt"
	"net"
	"time"

	"github.com/seed-45eadc4a/analytics-go/compat/v3"
	"github.com/seed-45eadc4a/analytics-go/mockserver"
)

// A program for version 3 only changes its import path.
func Example() {
	srv, err := mockserver.Run(mockserver.Config{}) // a local server instead of the service
	if err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()

	client, err := analytics.NewWithConfig("write-key", analytics.Config{
		Endpoint:       srv.URL,
		Interval:       30 * time.Second,
		BatchSize:      100,
		DefaultContext: &analytics.Context{App: analytics.AppInfo{Name: "shop", Version: "1.2"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = client.Enqueue(analytics.Track{
		UserId:       "019mr8mf4r",
		Event:        "Order Completed",
		Properties:   analytics.NewProperties().SetRevenue(25.5).SetCurrency("EUR"),
		Context:      &analytics.Context{IP: net.ParseIP("203.0.113.7")},
		Integrations: analytics.NewIntegrations().DisableAll().Enable("Webhooks"),
	})
	if err != nil {
		fmt.Println(err)
	}
	if err := client.Close(); err != nil {
		fmt.Println(err)
	}

	for _, call := range srv.Calls() {
		fmt.Println(call.Type, call.Event, call.UserID)
	}
	// Output: track Order Completed 019mr8mf4r
}

type counter struct{ delivered, lost int }

func (c *counter) Success(analytics.Message) { c.delivered++ }

func (c *counter) Failure(m analytics.Message, err error) {
	c.lost++
	fmt.Printf("%T: %v\n", m, err)
}

// A callback receives the outcome of each message.
func ExampleCallback() {
	srv, err := mockserver.Run(mockserver.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()

	var c counter
	client, err := analytics.NewWithConfig("write-key", analytics.Config{Endpoint: srv.URL, Callback: &c})
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = client.Enqueue(analytics.Identify{UserId: "019mr8mf4r"})
	_ = client.Close() // Close also waits for the callback
	fmt.Println(c.delivered, "delivered,", c.lost, "lost")
	// Output: 1 delivered, 0 lost
}
