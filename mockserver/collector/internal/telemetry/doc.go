// Package telemetry exports the collector's traces and metrics by OTLP, the protocol of
// OpenTelemetry. It wraps the collector's handler, journal and transport, and reads its
// Prometheus metrics. The collector itself does not depend on this package.
//
// # The spans of a call
//
//	POST /v1/batch   SERVER    a request with calls
//	└ store web      PRODUCER  one source's calls are appended to the journal
//	  └ deliver crm  CLIENT    one attempt to deliver one of these calls to a webhook
//
// The server span continues the sender's trace. The sender decides whether the trace is recorded.
// If the sender has not decided, the sampler decides. The journal stores the producer span's
// context with the calls, so that retries, replays and other processes continue the trace.
// Webhooks receive the client span's context. The client span also links to the producer
// span, as the semantic conventions for messaging recommend.
//
// # Blocking
//
// Exports never block the collector. Spans wait in a bounded queue. Spans that do not fit in the
// queue, and spans that end after their exporter was closed or replaced, are dropped and counted.
//
// # Files
//
//   - configure.go: settings and their changes
//   - server.go, journal.go, client.go: the three kinds of span
//   - export.go: exporters and their limits
//   - counting.go: the number of exported, failed and dropped spans
//   - metrics.go: names of metrics
package telemetry
