package signup

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	analytics "github.com/seed-45eadc4a/analytics-go"
	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// This test compares all calls and their properties with testdata/tracking.json. To change the
// file, run the test with ANALYTICS_BASELINE=record and review the diff.
func TestSignUpMatchesBaseline(t *testing.T) {
	srv := mockserver.RunT(t)
	client := analytics.New("any-key")
	client.Endpoint = srv.URL
	SignUp(client, "user-123", "Enterprise")
	client.Close()

	srv.Baseline(t, "testdata/tracking.json")
}

// The client retries calls that it could not deliver during an outage.
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

// This test follows a call to a webhook that is unavailable at first. It uses the fake clock of
// testing/synctest, so the retries take milliseconds. A synctest bubble must not use the network.
// InProcess, srv.Client and NewTransport replace the network.
func TestSignUpReachesTheCRM(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		crm := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}) // your webhook receiver
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

// If a webhook stays down, the call fails after four hours of retries.
func TestSignUpFailsAfterFourHours(t *testing.T) {
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

// withCRM returns the configuration of a server that forwards all calls to receiver without
// using the network.
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

// newClient returns a client that sends to srv without using the network.
func newClient(srv *mockserver.Server) *analytics.Client {
	client := analytics.New("any-key")
	client.Endpoint, client.Client = srv.URL, *srv.Client()
	return client
}
