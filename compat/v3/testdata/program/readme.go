package main

import (
	"os"

	analytics "github.com/seed-45eadc4a/analytics-go/compat/v3"
)

// readme is the shortest possible program.
func readme() {
	client := analytics.New(os.Getenv("SEGMENT_WRITE_KEY"))

	client.Enqueue(analytics.Track{
		UserId: "test-user",
		Event:  "test-snippet",
	})

	client.Close()
}
