// Package record says what the journal's messages look like: the names of streams and
// subjects, the headers and bodies of accepted calls, outcomes, retries and failed calls.
// It knows no connection; what it decodes is either whole or an error.
//
// # Files
//
//  1. failures.go: messages of FAILED, and which of their calls were replayed
//  2. message.go: messages of CALLS, by their headers
//  3. retry.go: messages of RETRY
//  4. outcome.go: messages of OUTCOMES, and the encoding of numbers and texts
//  5. accepted.go: what is noted of an accepted message beside the streams
//  6. traces.go: of which trace the calls of a message are part
//  7. codec.go: the bodies and the ids of calls
//  8. names.go: streams, subjects and consumers
package record
