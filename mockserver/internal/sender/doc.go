// Package sender makes requests to webhooks and other collectors, classifies their results and
// schedules retries.
//
// [Sender.Send] makes one POST request to one [webhook.Endpoint] and returns a [webhook.Attempt].
// The [webhook.Policy] checks each address right before connecting, and the TLS handshake refuses
// self-signed certificates. The verdict is Success for 2xx responses. It is Temporary for 408, 425,
// 429, 5xx and most errors. It is Permanent for other responses, a refusal by the Policy, a
// self-signed certificate, and an invalid request. [Next] schedules the retry of a call.
//
// A [Batcher] sends several calls in one request, as a JSON array or to the tracking API of another
// collector.
//
// A Sender keeps idle connections and no other state. Only Send blocks, at most for its timeout.
package sender
