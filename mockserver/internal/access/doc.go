// Package access controls access to the admin API and the inspector, and converts errors to
// responses.
//
// [NewHTTPServer] limits slow senders and readers. A [Guard] checks the host of a request
// (against DNS rebinding), its origin and its token, and throttles addresses that send invalid
// tokens. [Sessions] replace the token with a signed cookie in browsers. [ErrorOf] converts
// any error of the collector to a response.
//
// Only Sessions access the state store, which may block.
package access
