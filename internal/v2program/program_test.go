// Package v2program tests a program that was written for version 2 of the service's library.
package v2program

import (
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/segmentio/backo-go"

	"github.com/seed-45eadc4a/analytics-go"
)

type User struct {
	ID, Email string
}

// program is unchanged except for its import path and its name.
func program() {
	analytics.Backo = backo.NewBacko(time.Millisecond, 2, 0, time.Second)
	analytics.DefaultContext["app"] = map[string]interface{}{"name": "v2program"}

	client := analytics.New(os.Getenv("WRITE_KEY"))
	if url := os.Getenv("COLLECTOR"); url != "" && client.Endpoint == analytics.Endpoint {
		client.Endpoint = url
	}
	client.Interval = 30 * time.Second
	client.Size = 100
	client.Verbose = true
	client.Logger = log.New(os.Stdout, "v2program ", 0)
	client.Client = http.Client{Timeout: 5 * time.Second}

	user := User{ID: "019mr8mf4r", Email: "jo@example.com"}
	check(client.Identify(&analytics.Identify{
		UserId: user.ID,
		Traits: map[string]interface{}{"email": user.Email, "visits": 3},
	}))

	event := analytics.Track{
		Event:        "Download",
		UserId:       user.ID,
		Properties:   map[string]interface{}{"application": "Desktop", "version": "1.1.0", "platform": "osx"},
		Context:      map[string]interface{}{"ip": "203.0.113.7"},
		Integrations: map[string]interface{}{"All": false, "Webhooks": true},
	}
	event.MessageId = "download-1"
	event.Timestamp = "2015-07-10T17:43:38-0700"
	check(client.Track(&event))

	check(client.Page(&analytics.Page{
		AnonymousId: "anon-1",
		Category:    "Docs",
		Name:        "Go library",
		Traits:      map[string]interface{}{"url": "https://example.com/docs"},
	}))
	check(client.Group(&analytics.Group{
		UserId:  user.ID,
		GroupId: "group-1",
		Traits:  map[string]interface{}{"name": "Initech"},
		Message: analytics.Message{MessageId: "group-call-1", Timestamp: "2015-07-11T00:43:38.123456Z"},
	}))
	check(client.Alias(&analytics.Alias{PreviousId: "anon-1", UserId: user.ID}))

	if err := client.Track(&analytics.Track{UserId: user.ID}); err != nil {
		fmt.Println("refused:", err)
	}
	check(client.Close())
	fmt.Println("version", analytics.Version)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
