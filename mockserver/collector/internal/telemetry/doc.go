// Package telemetry sends traces and metrics of a collector by OTLP, the protocol of
// OpenTelemetry. The collector itself knows nothing of it: what is here stands around its
// handler, its journal and what carries its requests, and reads its metrics.
//
// # The spans of a call
//
//	POST /v1/batch   SERVER    a request that brings calls
//	└ store web      PRODUCER  its calls of one source go into the journal, with this span's context
//	  └ deliver crm  CLIENT    a request to a webhook for one of them, at each attempt
//
// The first continues the trace of the sender, which also says whether it is recorded. Where
// it says nothing, the sampler decides. The context of the second goes with the calls, so
// that retries, replays and other processes find it, and that of the third goes to the webhook.
// The third links to the second too, as the semantic conventions for messaging say.
//
// # What may block
//
// Nothing: spans go into a queue that is bounded, and those beyond it are counted and
// dropped. One goroutine sends them; another reads the metrics and sends these. [Telemetry.Close]
// waits for them a few seconds. Where the settings change, what has begun goes where it was
// to: spans that take longer than a request to a webhook are counted as dropped.
//
// # Files
//
//  1. configure.go: what is sent where, and changes of that
//  2. server.go: spans of requests that bring calls
//  3. journal.go: spans of what is stored
//  4. client.go: spans of requests to webhooks
//  5. attributes.go: what spans say, and contexts
//  6. export.go: how it is sent, and what is not
//  7. bounded.go: the queue of spans, and how exports went
//  8. metrics.go: metrics as OpenTelemetry names them
//  9. telemetry.go: what a Telemetry consists of
package telemetry
