// Package record defines the journal's messages: names of streams and subjects, headers and
// bodies of accepted calls, outcomes, retries and failed calls. Decoding returns a complete
// message or an error. The package does no I/O.
//
// # Files
//
//  1. names.go: streams, subjects and consumers
//  2. message.go: messages of CALLS
//  3. outcome.go: messages of OUTCOMES
//  4. retry.go: messages of RETRY
//  5. failures.go: messages of FAILED
//  6. codec.go: bodies and IDs of calls
package record
