package signup

import (
	"flag"
	"net/http"
	"testing"
	"time"

	analytics "github.com/seed-45eadc4a/analytics-go"
	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

var update = flag.Bool("update", false, "write the golden files")

// All calls, to the last property, as they were when somebody looked at them:
// testdata/signup.json. To change it, run the tests with -update and read the diff.
func TestSignUpSendsWhatWasAgreed(t *testing.T) {
	srv := mockserver.RunT(t)
	client := analytics.New("any-key")
	client.Endpoint = srv.URL
	SignUp(client, "user-123", "Enterprise")
	client.Close()

	srv.Golden(t, "testdata/signup.json", mockserver.Golden{
		Update:  *update,
		Without: []string{"context.library.version"},
	})
}

// What users do while the collector is restarted is tracked all the same.
func TestSignUpSurvivesAnOutage(t *testing.T) {
	srv := mockserver.RunT(t)
	srv.Fail(
		mockserver.Fault{Status: http.StatusServiceUnavailable},
		mockserver.Fault{Reset: true},
	)
	client := analytics.New("any-key")
	client.Endpoint = srv.URL
	SignUp(client, "user-123", "Enterprise")
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}

	srv.Expect(t, mockserver.OfEvent("Signed Up"))
}

// The whole way: what a webhook gets, be the webhook down at first.
func TestSignUpReachesTheCRM(t *testing.T) {
	crm := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}) // your receiver
	clock := mockserver.NewManualClock(time.Now())
	srv := mockserver.RunT(t, mockserver.Config{
		Clock:  clock,
		Sender: webhook.SenderConfig{Transport: mockserver.NewTransport(webhook.Handler("s3cret", crm))},
		Destinations: []mockserver.Destination{{Name: "crm", Settings: webhook.Settings{
			SharedSecret: "s3cret",
			Webhooks:     []webhook.Endpoint{{URL: "https://crm.example.com/hooks/analytics"}},
		}}},
	})
	srv.FailDeliveries(mockserver.Fault{Status: http.StatusBadGateway, Times: 5})
	client := analytics.New("any-key")
	client.Endpoint = srv.URL
	SignUp(client, "user-123", "Enterprise")
	client.Close()

	clock.Advance(webhook.Window) // four hours of retries, at once
	srv.Expect(t, mockserver.OfEvent("Signed Up"), mockserver.DeliveredTo("crm"))
}
