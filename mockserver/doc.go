// Package mockserver is a collector for analytics calls in tests: it takes what client
// libraries send, shows it, and forwards each call to webhooks.
//
// # In a test
//
// [RunT] starts a server that a client can send to in place of the service:
//
//	srv := mockserver.RunT(t)
//	client := analytics.New("any-key")
//	client.Endpoint = srv.URL
//	SignUp(client, "user-123", "Pro") // what is tested
//	client.Close()                    // sends what is queued
//	srv.Expect(t, mockserver.OfEvent("Signed Up"), mockserver.Like(`{"properties":{"plan":"Pro"}}`))
//
// The server is a [View] of all calls that came:
//
//   - [View.Expect], [View.ExpectN] and [View.ExpectNone] end the test if the calls
//     that every [Match] picks are not there, and tell what came instead and what
//     is wrong with the nearest. [View.Wait] returns that as an error.
//   - [View.Golden] holds all calls against a file.
//   - [View.Source] gives tests that share a server a view of their own.
//   - [View.Fail] and [View.FailDeliveries] let things go wrong, once or for good,
//     see [Fault].
//
// Time in tests is that of a bubble of testing/synctest, in which the four hours of
// retries pass in milliseconds. Nothing in a bubble may wait for the network:
// Config.InProcess, [Server.Client] and [NewTransport] stand in for it.
//
//	synctest.Test(t, func(t *testing.T) {
//		srv := mockserver.RunT(t, mockserver.Config{
//			InProcess:    true,
//			Sender:       webhook.SenderConfig{Transport: mockserver.NewTransport(receiver)},
//			Destinations: destinations,
//		})
//		srv.FailDeliveries(mockserver.Fault{Status: 503, Times: mockserver.Always})
//		client := analytics.New("any-key")
//		client.Endpoint, client.Client = srv.URL, *srv.Client()
//		SignUp(client, "user-123", "Pro")
//		client.Close()
//		time.Sleep(4 * time.Hour)
//		srv.Expect(t, mockserver.InState("crm", mockserver.StateFailed))
//	})
//
// # In production
//
// This package is for tests and development alone: what runs in production does not
// import it. The command of the module mockserver/collector is the same collector, with
// a journal that survives, a configuration and metrics. Receivers import package
// webhook, and what a [Record] consists of is documented in package tracking.
//
// # What is in front of the collector, and behind
//
// A [Server] is an engine (package internal/engine, whose stages follow a call from its
// request to the webhooks) with nothing in it for tests. Faults are put around it: as a
// handler before the tracking API, and as a RoundTripper before the webhooks. A View
// reads the history, which is told of everything after the fact; so a test that waits
// for a call never holds one up.
//
// A [Fault]'s Match and a [Match] run on the caller's goroutine, or on that of the
// request that they are asked about, without a lock held.
//
// # Files
//
//  1. server.go: a server begins and ends
//  2. view.go: the calls that came
//  3. goldendiff.go: how they differ from a file
//  4. golden.go: what the file holds
//  5. fault_delivery.go, fault_request.go: what goes wrong, behind and in front
//  6. config.go: what can be configured
//  7. fault.go: what a fault is, and which requests it befalls
//  8. names.go: what tests look at
//  9. match.go: which calls are meant
//  10. transport.go: requests without a network
package mockserver
