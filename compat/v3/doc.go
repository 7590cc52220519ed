// Package analytics lets programs for version 3 of the service's Go library use this
// module's client. Such a program changes only its import path:
//
//	import analytics "github.com/seed-45eadc4a/analytics-go/compat/v3"
//
//	client := analytics.New("YOUR_WRITE_KEY")
//	defer client.Close()
//
//	err := client.Enqueue(analytics.Track{
//		UserId:     "019mr8mf4r",
//		Event:      "Song Played",
//		Properties: analytics.NewProperties().Set("artist", "Dwele"),
//	})
//
// The types, fields, functions, errors, defaults and JSON match version 3.4. The
// implementation is the client of the module's root package: it encodes each call before
// Enqueue returns, bounds its memory, retries batches during [Client.Close], and reports
// every lost message. MIGRATING.md lists the differences. New programs should use the root
// package, which has more features.
//
// # Outcome of a message
//
// [Client.Enqueue] first validates the message. If a field is missing or the client is
// closed, it returns a [FieldError] or [ErrClosed], and nothing else happens. For any other
// message, the client calls [Config.Callback] exactly once: Success after the collector has
// accepted the batch, otherwise Failure. If a message cannot be queued, Enqueue also
// returns the error:
//
//   - [ErrMessageTooBig]: its JSON is over 32 KB.
//   - [ErrTooManyRequests]: 32 MiB of calls wait for the collector.
//   - an error that names a value without a JSON representation.
//
// While 1,000 such errors wait for the Callback, it does not receive further ones.
//
// # Concurrency
//
// A client is safe for concurrent use. Enqueue does not use a message after it returns, so
// callers can reuse its maps. With a Callback, the client keeps the whole
// message, including the caller's maps, until the callback has received it. These messages do
// not count toward the 32 MiB.
//
// client.go converts messages, config.go converts the Config, and callback.go reports outcomes.
package analytics
