// Package analytics lets programs that were written for version 3 of the service's Go
// library run on the client of this module. Such a program changes its import path, and
// nothing else:
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
// The types, fields, functions, errors and defaults are those of version 3.4, and what
// arrives at a collector is the same JSON. Behind them is the client of the module's root
// package, in which a call is encoded before Enqueue returns, memory is bounded, batches
// are retried while [Client] is closed, and nothing is lost without being told.
// MIGRATING.md lists what differs. New programs use the root package, which has more.
//
// # What becomes of a message
//
// [Client.Enqueue] checks the message. If a field is missing, or the client was closed,
// it returns a [FieldError] or [ErrClosed], and nothing else happens. Any other message
// ends in exactly one call of [Config.Callback], if there is one: Success when the
// collector has taken the batch, or else Failure. A message that was never queued ends
// in Failure too, and Enqueue returns the error as well:
//
//   - its JSON is over 32 KB: [ErrMessageTooBig]
//   - 32 MiB of calls wait for the collector: [ErrTooManyRequests]
//   - a value cannot be written as JSON: an error that names it
//
// # Concurrency
//
// A client may be used by many goroutines at once. A message is read by Enqueue, and not
// after it returned: its maps can be changed and used again. With a Callback the client
// keeps the message for it, and the maps in it are the caller's; they do not count towards
// the 32 MiB.
//
// # Files
//
// Each file uses only those after it.
//
//  1. client.go: a client, over one of the root package
//  2. config.go: what can be set
//  3. callback.go: what became of messages
//  4. message.go: the six messages, and what they lack
//  5. context.go: the context of a message
//  6. bags.go: properties, traits and integrations
//  7. logger.go: the log
//  8. errors.go: errors
package analytics
