// Package otelanalytics connects package analytics to OpenTelemetry. It reports the
// client's counters and request durations as metrics, and creates a span for each request
// with links to the spans that made its calls.
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
// It is a separate module, so programs without it do not depend on OpenTelemetry.
//
// # Metrics
//
// [Observe] reports [analytics.Stats] at each collection:
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
// At each collection, accepted = delivered + dropped + pending. Create alerts for dropped
// and rejected calls, and for a growing number of pending calls.
//
// [Configure] adds http.client.request.duration of the semantic conventions, a histogram
// in seconds. It measures each request with calls, including retries, until the response header
// arrives. Its attributes are http.request.method, server.address, server.port,
// url.scheme, http.response.status_code and, for failed requests, error.type.
//
// # Spans
//
// A batch contains calls from many requests to the program, and the client sends it after
// the methods that made the calls have returned. So each request to the collector starts a
// new trace. Its span, of kind client, has a link to each sampled span that made one of the
// batch's calls. Links require [analytics.Client.Enqueue] with the span's context; methods
// such as Track take no context. An SDK limits the number of links, to 128 by default.
//
// The span of a failed request, or of a response other than 2xx, has the status Error. A
// span has http.request.resend_count if the client sent the batch before, and
// messaging.batch.message_count, the number of calls.
package otelanalytics
