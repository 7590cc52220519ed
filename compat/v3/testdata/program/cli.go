package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/seed-45eadc4a/analytics-go/compat/v3"
)

// outcome is a callback that the command waits for.
type outcome chan error

func (o outcome) Success(analytics.Message) { o <- nil }

func (o outcome) Failure(m analytics.Message, err error) {
	fmt.Fprintf(os.Stderr, "could not send %v: %v\n", m, err)
	o <- err
}

// cli is a command-line tool. It reads JSON from flags, ignores the errors of Enqueue and
// gets the outcome from a callback.
func cli(endpoint string) error {
	for _, flags := range []map[string]string{
		{"type": "track", "userId": "u1", "event": "Deployed", "properties": `{"env":"prod","took":12.5}`},
		{"type": "identify", "userId": "u1", "traits": `{"email":"jo@example.com","tags":["a","b"]}`},
		{"type": "group", "userId": "u1", "groupId": "g1", "traits": `{"seats":5}`},
		{"type": "page", "userId": "u1", "name": "Docs", "properties": `{"path":"/docs"}`},
		{"type": "screen", "userId": "u1", "name": "Home", "properties": `null`},
	} {
		if err := sendOne(endpoint, flags); err != nil {
			return err
		}
	}
	return nil
}

func sendOne(endpoint string, flags map[string]string) error {
	sent := outcome(make(chan error, 1))
	client, err := analytics.NewWithConfig("cli-key", analytics.Config{
		Endpoint:  endpoint,
		BatchSize: 1,
		Callback:  sent,
	})
	if err != nil {
		return err
	}
	switch flags["type"] {
	case "track":
		client.Enqueue(analytics.Track{UserId: flags["userId"], Event: flags["event"], Properties: object(flags["properties"])})
	case "identify":
		client.Enqueue(analytics.Identify{UserId: flags["userId"], Traits: object(flags["traits"])})
	case "group":
		client.Enqueue(analytics.Group{UserId: flags["userId"], GroupId: flags["groupId"], Traits: object(flags["traits"])})
	case "page":
		client.Enqueue(analytics.Page{UserId: flags["userId"], Name: flags["name"], Properties: object(flags["properties"])})
	case "screen":
		client.Enqueue(analytics.Screen{UserId: flags["userId"], Name: flags["name"], Properties: object(flags["properties"])})
	}
	return <-sent
}

func object(text string) map[string]interface{} {
	var m map[string]interface{}
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		fmt.Fprintln(os.Stderr, "not JSON:", text)
		os.Exit(1)
	}
	return m
}
