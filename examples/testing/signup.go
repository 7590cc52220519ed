// Package signup shows how a program's tracking is tested. Most tests are like the
// one in signup_test.go. Those in further_test.go hold all calls against a file,
// and go on through outages to the webhook at the end.
//
//	go test ./examples/testing
package signup

import (
	"errors"

	analytics "github.com/seed-45eadc4a/analytics-go"
)

// SignUp makes an account and tells analytics of it.
func SignUp(client *analytics.Client, user, plan string) error {
	return errors.Join(
		client.Identify(&analytics.Identify{UserId: user, Traits: map[string]interface{}{"plan": plan}}),
		client.Track(&analytics.Track{UserId: user, Event: "Signed Up", Properties: map[string]interface{}{"plan": plan}}),
	)
}
