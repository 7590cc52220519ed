// Package sender delivers bodies to webhooks: it makes one request at a time, says
// what came of it, and decides when to try again.
//
// # The path of a request
//
// [Sender.Send] makes one POST to one [webhook.Endpoint] and returns a
// [webhook.Attempt], which holds its verdict. Each address is checked by the
// [webhook.Policy] right before the connection is made, and self-signed certificates
// are refused in the handshake. A 2xx is a success. Temporary are 408, 425, 429, 5xx, and
// all errors but those that another attempt cannot mend: a refusal by the Policy, a
// self-signed certificate, a request that cannot be made. All else is permanent.
//
// [Combine] gives the verdict over the requests for one call, of which one success is
// enough. [Next] says when to try a call again that failed for now.
//
// A Sender keeps idle connections and nothing else from one request to the next.
// Only Send blocks, for its timeout at most.
//
// # Files
//
//  1. send.go: a request is made and its response read
//  2. reason.go: what came of it, and why it failed, in words
//  3. tls.go: a certificate is accepted or explained
//  4. dial.go: a connection is made, to an allowed address, also through a proxy
//  5. retry.go: whether a call is tried again, and when
package sender
