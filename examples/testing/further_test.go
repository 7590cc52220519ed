package signup

import (
	"flag"
	"net/http"
	"testing"
	"testing/synctest"
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

// The whole way: what a webhook gets, be the webhook down at first. In the bubble of
// testing/synctest time passes as soon as nothing else goes on, so that the retries
// take milliseconds. Nothing in it may use the network: InProcess, srv.Client and
// NewTransport stand in for it.
func TestSignUpReachesTheCRM(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		crm := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}) // your receiver
		srv := mockserver.RunT(t, withCRM(webhook.Handler("s3cret", crm)))
		srv.FailDeliveries(mockserver.Fault{Status: http.StatusBadGateway, Times: 5})
		client := newClient(srv)
		SignUp(client, "user-123", "Enterprise")
		if err := client.Close(); err != nil {
			t.Fatal(err)
		}

		srv.Within(time.Hour).Expect(t, mockserver.OfEvent("Signed Up"), mockserver.Attempted("crm", 2), mockserver.DeliveredTo("crm"))
	})
}

// A webhook that stays down: after four hours of retries the call is given up.
func TestSignUpIsGivenUpAfterFourHours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := mockserver.RunT(t, withCRM(http.NotFoundHandler()))
		srv.FailDeliveries(mockserver.Fault{Status: http.StatusServiceUnavailable, Times: mockserver.Always})
		client := newClient(srv)
		SignUp(client, "user-123", "Enterprise")
		if err := client.Close(); err != nil {
			t.Fatal(err)
		}

		time.Sleep(3 * time.Hour)
		srv.Expect(t, mockserver.OfEvent("Signed Up"), mockserver.InState("crm", mockserver.StatePending))
		time.Sleep(time.Hour)
		srv.Within(time.Minute).Expect(t, mockserver.OfEvent("Signed Up"), mockserver.InState("crm", mockserver.StateFailed))
	})
}

// withCRM configures a server without a network that forwards all calls to a receiver.
func withCRM(receiver http.Handler) mockserver.Config {
	return mockserver.Config{
		InProcess: true,
		Sender:    webhook.SenderConfig{Transport: mockserver.NewTransport(receiver)},
		Destinations: []mockserver.Destination{{Name: "crm", Settings: webhook.Settings{
			SharedSecret: "s3cret",
			Webhooks:     []webhook.Endpoint{{URL: "https://crm.example.com/hooks/analytics"}},
		}}},
	}
}

// newClient returns a client that sends to a server without a network.
func newClient(srv *mockserver.Server) *analytics.Client {
	client := analytics.New("any-key")
	client.Endpoint, client.Client = srv.URL, *srv.Client()
	return client
}
