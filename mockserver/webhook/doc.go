// Package webhook holds what the two ends of a delivery share: the payload of a
// call, its signature, and the rules by which it is sent and sent again.
//
// # Receiving
//
// Each call comes as one POST with a JSON object. With a shared secret its
// X-Signature is the HMAC-SHA1 over the body's bytes in lower-case hexadecimal.
// [Handler] verifies it in front of a handler of yours; with a framework that
// reads the body itself, call [Verify] with the bytes as they came:
//
//	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, webhook.MaxBody))
//	…
//	err = webhook.Verify(secret, body, r.Header.Get(webhook.SignatureHeader))
//
// A destination with the signature "standard" or "both" signs as the Standard Webhooks
// specification says: [VerifyStandard] refuses what is older than five minutes, and
// [VerifyRequest] takes either signature, as [Handler] does.
//
// Receivers in other languages often have only the parsed body, and verify over
// JSON.stringify of it. That gives the same signature: a payload is in canonical
// form, the very text that JSON.stringify makes of it (see [Canonical]). Go's
// encoding/json writes another form, so a receiver in Go verifies the raw bytes.
// docs/webhooks.md in the repository has verifiers in Node and Python, and what
// the bodies hold.
//
// Answer 2xx within five seconds. A delivery can come more than once: the
// X-Message-Id of a call is the same each time.
//
// # Sending
//
// The path of a call: [Payload] makes its body, once; [Sign] signs it, once; the
// collector sends it to each entry of the destination's [Settings], in parallel,
// and keeps an [Attempt] for each. One success is enough. Those that failed for
// now are tried again, later each time, until the [Window] ends. Each connection
// is checked by a [Policy]; certificates signed by themselves are refused. A
// [SenderConfig] says how requests are made.
//
// # Files
//
//  1. settings.go: what a destination is
//  2. payload.go, canonical.go: the body of a call
//  3. handler.go, standard.go, sign.go: its signature, verified and made
//  4. delivery.go, address.go: its headers, how and where it is sent
//  5. attempt.go: what came of it
package webhook
