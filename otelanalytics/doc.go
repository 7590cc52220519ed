// Package otelanalytics has the client of package analytics report to OpenTelemetry:
// what became of calls as metrics, how long requests take, and a span for each request
// that is linked to the spans in which its calls were made.
//
//	cfg, err := otelanalytics.Configure(analytics.Config{})
//	if err != nil {
//		log.Fatal(err)
//	}
//	client, err := analytics.NewWithConfig("YOUR_WRITE_KEY", cfg)
//	if err != nil {
//		log.Fatal(err)
//	}
//	metrics, err := otelanalytics.Observe(client)
//
// It is a module of its own: programs that do not use it do not depend on OpenTelemetry.
//
// # Metrics
//
// [Observe] reports [analytics.Stats] whenever a reader collects:
//
//	name                            kind             unit
//	analytics.client.call.accepted  counter          {call}
//	analytics.client.call.delivered counter          {call}
//	analytics.client.call.dropped   counter          {call}     by error.type: refused, attempts, expired, overflow, shutdown, damaged
//	analytics.client.call.rejected  counter          {call}     by error.type: invalid, too_large, queue_full, spool, closed
//	analytics.client.call.recovered counter          {call}
//	analytics.client.call.pending   up-down counter  {call}
//	analytics.client.batch.made     counter          {batch}
//	analytics.client.request.made   counter          {request}
//	analytics.client.memory.usage   up-down counter  By
//	analytics.client.spool.usage    up-down counter  By
//
// At each collection accepted = delivered + dropped + pending. Alert on dropped and
// rejected, and on pending that grows.
//
// [Configure] adds http.client.request.duration, a histogram in seconds, of the semantic
// conventions: of each request, retries included, until the header of its answer. Its
// attributes are http.request.method, server.address, server.port, url.scheme,
// http.response.status_code and, of a request that failed, error.type.
//
// # Spans
//
// A call is in a batch with calls of other requests of the program, and is sent after the
// method that made it has returned. So the span of a request to the collector, of kind
// client, is the root of a trace of its own, with a link to each sampled span in which
// calls of the batch were made. For that, make calls by [analytics.Client.Enqueue] with the
// context of the span; Track and its kin have no context. An SDK keeps a bounded number of
// links, 128 by default.
//
// A failed request is a span with status Error, and so is an answer that is no 2xx. The
// span has http.request.resend_count if the client says how often the batch was sent
// before, and messaging.batch.message_count, the number of calls.
//
// # Files
//
// Each file uses only those after it.
//
//  1. configure.go: the options of a client, and its links
//  2. transport.go: requests
//  3. stats.go: what became of calls
//  4. options.go: where it is reported to
package otelanalytics
