// Package access controls access to the admin API and the inspector, and converts errors to
// responses.
//
// [NewHTTPServer] limits slow senders and readers. A [Guard] checks the host of a request to prevent
// DNS rebinding. It also checks the origin and the token, and throttles addresses that send invalid
// tokens. In browsers, [Sessions] replace the token with a signed cookie. [ErrorOf] converts any
// error of the collector to a response.
//
// Only Sessions use the state store, which may block.
package access
