// Package mockserver is an analytics collector for tests: it accepts calls from client
// libraries, shows them, and forwards each call to webhooks.
//
// # In a test
//
// [RunT] starts a server that replaces the service:
//
//	srv := mockserver.RunT(t)
//	client := analytics.New("any-key")
//	client.Endpoint = srv.URL
//	SignUp(client, "user-123", "Pro") // the code under test
//	client.Close()                    // sends queued calls
//	srv.Expect(t, mockserver.OfEvent("Signed Up"), mockserver.Like(`{"properties":{"plan":"Pro"}}`))
//
// The server is a [View] of all calls it has received:
//
//   - [View.Expect], [View.ExpectN] and [View.ExpectNone] fail the test unless the
//     expected calls arrive. The failure lists the received calls and explains how
//     the closest one differs. [View.Wait] returns the same text as an error.
//   - [View.Baseline] compares all calls with a recorded run. [View.Golden] has more options,
//     but does not group calls by user.
//   - [View.Source] gives each test its own view of a shared server.
//   - [View.Fail] and [View.FailDeliveries] inject a [Fault], once or permanently.
//
// Under testing/synctest, the four hours of retries pass in milliseconds. Code in a
// bubble must not wait for the network; use Config.InProcess, [Server.Client] and
// [NewTransport] instead.
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
// This package is for tests and development only. In production, run the command
// collector of module mockserver/collector: the same collector with a durable journal,
// a configuration file and metrics. Receivers import package webhook. Package tracking
// documents the fields of a [Record].
//
// # Structure
//
// A [Server] wraps an engine (package internal/engine) that contains no test code. Faults
// are added around the engine: by an http.Handler in front of the tracking API, and by an
// http.RoundTripper in front of the webhooks. A View reads the history, which receives
// events after they have happened, so a waiting test never delays a call.
//
// The Match of a [Fault] runs on the goroutine that handles the request. A [Match] runs on
// the goroutine that calls the method of View. No lock is held while they run.
package mockserver
