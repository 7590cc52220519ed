package mockserver_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// trackSignUp sends a call like a client library.
func trackSignUp(client *http.Client, url, writeKey, plan string) {
	body := fmt.Sprintf(`{"batch":[{"type":"track","event":"Signed Up","userId":"u1","messageId":"m1","properties":{"plan":%q}}]}`, plan)
	req, _ := http.NewRequest(http.MethodPost, url+"/v1/batch", strings.NewReader(body))
	req.SetBasicAuth(writeKey, "")
	res, err := client.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = res.Body.Close()
	fmt.Println(res.StatusCode)
}

// printingT replaces *testing.T in examples. It prints failures and ignores cleanup
// functions.
type printingT struct{}

func (printingT) Helper()        {}
func (printingT) Cleanup(func()) {}

func (printingT) Fatalf(format string, args ...any) { fmt.Printf(format+"\n", args...) }

var t printingT

// In a test, use RunT(t), which closes the server when the test ends.
func ExampleRun() {
	srv, err := mockserver.Run(mockserver.Config{})
	if err != nil {
		panic(err)
	}
	defer srv.Close()

	trackSignUp(http.DefaultClient, srv.URL, "any-key", "Pro")

	for _, call := range srv.Calls(mockserver.OfEvent("Signed Up")) {
		fmt.Println(call.UserID, call.Properties()["plan"])
	}
	// Output:
	// 200
	// u1 Pro
}

func ExampleView_Expect() {
	srv := mockserver.RunT(t)
	trackSignUp(http.DefaultClient, srv.URL, "any-key", "Pro")

	record := srv.Expect(t, mockserver.OfEvent("Signed Up"), mockserver.OfUser("u1"))
	fmt.Println(record.Call.Properties()["plan"])
	srv.ExpectNone(t, mockserver.OfType("identify"))
	// Output:
	// 200
	// Pro
}

// The file was written by Golden.Update when the plan was different.
func ExampleView_Golden() {
	srv := mockserver.RunT(t)
	trackSignUp(http.DefaultClient, srv.URL, "any-key", "Free")

	srv.Golden(t, "testdata/golden/signup.json", mockserver.Golden{})
	// Output:
	// 200
	// mockserver: golden file: testdata/golden/signup.json: 1 difference from the baseline (received 1 call of 1 user)
	//
	// user 1, userId "u1"
	// ! track "Signed Up"
	//       properties.plan is "Free", want "Pro"
	//
	// to accept the differences, run the test once with Golden.Update
}

// The error of Wait lists the received calls and explains how the closest one differs.
func ExampleView_Wait() {
	srv := mockserver.RunT(t)
	trackSignUp(http.DefaultClient, srv.URL, "any-key", "Free")

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, err := srv.Wait(ctx, 1, mockserver.OfEvent("Signed Up"), mockserver.Like(`{"properties":{"plan":"Pro"}}`))
	fmt.Println(err)
	// Output:
	// 200
	// mockserver: waited for 1 call; received 0 matching of 1
	//   nearest: track "Signed Up" userId="u1" messageId="m1"
	//     properties.plan is "Free", want "Pro"
	//   received: track "Signed Up" userId="u1" messageId="m1"
}

// Parallel tests can share a server if each uses its own write key.
func ExampleView_Source() {
	server := mockserver.RunT(t)

	one, another := server.Source("key-of-one-test"), server.Source("key-of-another")
	trackSignUp(http.DefaultClient, server.URL, "key-of-one-test", "Pro")
	fmt.Println(len(one.Calls()), len(another.Calls()))
	// Output:
	// 200
	// 1 0
}

// Each fault affects one request, in order, unless Times says otherwise.
func ExampleView_Fail() {
	srv := mockserver.RunT(t)

	srv.Fail(
		mockserver.Fault{Status: 429, Header: http.Header{"Retry-After": {"1"}}, Times: 2},
		mockserver.Fault{AnswerOnly: true, Status: 503}, // stored, but the response is lost
	)
	for range 4 { // a client with retries
		trackSignUp(http.DefaultClient, srv.URL, "any-key", "Pro")
	}
	fmt.Println("stored:", len(srv.Calls()))
	// Output:
	// 429
	// 429
	// 503
	// 200
	// stored: 1
}

// Under testing/synctest a whole pipeline runs without a network; see the package
// documentation.
func ExampleServer_Transport() {
	receiver := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		fmt.Println("delivered:", r.Header.Get(webhook.MessageIDHeader))
	})
	srv := mockserver.RunT(t, mockserver.Config{
		InProcess: true,
		Sender:    webhook.SenderConfig{Transport: mockserver.NewTransport(receiver)},
		Destinations: []mockserver.Destination{{
			Name:     "crm",
			Settings: webhook.Settings{Webhooks: []webhook.Endpoint{{URL: "http://receiver.invalid/hook"}}},
		}},
	})

	trackSignUp(&http.Client{Transport: srv.Transport()}, srv.URL, "any-key", "Pro")
	if _, err := srv.Wait(context.Background(), 1, mockserver.DeliveredTo("crm")); err != nil {
		fmt.Println(err)
	}
	// Unordered output:
	// 200
	// delivered: m1
}
