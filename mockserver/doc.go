// Package mockserver is a collector for analytics calls: it takes what client
// libraries send, and forwards each call to webhooks.
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
// A [Collector] is the same without the means of tests. It is an http.Handler for
// the tracking API; [NewAdmin] serves its admin API. The module
// mockserver/collector makes a command of it, with a journal that survives.
//
// # The path of a call
//
// A request is read and unpacked within bounds, and parsed in one pass. Calls that
// are wrong are set aside with a [Code]; the others are completed with what their
// batch says, with corrected times, and with a messageId. Those that were stored
// before are left out. The [Journal] stores the rest, and only then the request is
// answered.
//
// Each destination leases entries from the journal: sources take turns, and retries
// that are due come beside calls that were never tried. Its calls pass a gate, which
// bounds how many are under way and lets fewer through while the destination
// is down, and are sent to all its webhooks at once. The first that takes a call
// decides. Calls that failed come back from the journal at their time; a webhook
// that has refused a call for good is not asked for it again. Calls of one batch
// are sent at the same time, so that a receiver gets them in any order.
//
// A sender waits for the journal, and for another request that is storing the same
// call; never for a destination. A destination waits for its own webhooks alone.
// A [History] remembers what happened, within bounds, and is told after the fact.
package mockserver
