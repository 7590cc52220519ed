// Package webhook defines the requests that the collector sends to webhooks, and verifies
// them in receivers.
//
// # Receiving
//
// Each call is sent as a POST request with a JSON object. If the destination has a shared
// secret, the X-Signature header contains the HMAC-SHA1 of the body in lower-case hexadecimal.
// [Handler] verifies it and calls your handler. If a framework reads the body, call [Verify]
// with the raw bytes:
//
//	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, webhook.MaxBody))
//	…
//	err = webhook.Verify(secret, body, r.Header.Get(webhook.SignatureHeader))
//
// A destination with the signature "standard" or "both" signs according to the Standard
// Webhooks specification. [VerifyStandard] verifies these signatures and refuses requests that
// are older than five minutes. [VerifyRequest] and [Handler] accept both kinds of signatures.
//
// Receivers in other languages often have only the parsed body. They can verify the signature of
// the string that JSON.stringify returns for it, because the collector sends bodies in this
// canonical form (see [Canonical]). Go's encoding/json formats JSON differently, so receivers in Go
// must verify the raw bytes. docs/webhooks.md in the repository documents the bodies and has
// verifiers in Node and Python.
//
// Respond with a 2xx status within five seconds. A call may be delivered more than once; its
// X-Message-Id is always the same.
//
// # Sending
//
// [Payload] returns the body of a call, and [Sign] the signature of a body. The collector sends the
// request to all webhooks in the destination's [Settings] at the same time, and records an [Attempt]
// for each. One success is enough. Webhooks that failed temporarily are retried with
// increasing delays until the [Window] ends. A [Policy] checks the address of each connection.
// Self-signed certificates are refused. A [SenderConfig] configures the requests.
package webhook
