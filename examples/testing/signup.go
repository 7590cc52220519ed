// Package signup shows how to test the tracking of a program. signup_test.go contains a
// typical test. The tests in further_test.go use a baseline, simulate outages, and follow
// calls to a webhook.
//
//	go test ./examples/testing
package signup

import (
	"errors"

	analytics "github.com/seed-45eadc4a/analytics-go"
)

// SignUp creates an account and records the event.
func SignUp(client *analytics.Client, user, plan string) error {
	return errors.Join(
		client.Identify(&analytics.Identify{UserId: user, Traits: map[string]interface{}{"plan": plan}}),
		client.Track(&analytics.Track{UserId: user, Event: "Signed Up", Properties: map[string]interface{}{"plan": plan}}),
	)
}
