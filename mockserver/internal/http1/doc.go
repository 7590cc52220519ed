// Package http1 implements an HTTP/1.1 transport that uses only the goroutine of the caller.
//
// The Transport of net/http has two goroutines per connection, for reading and writing. A delivery
// only waits for its response, so its goroutine can write the request and read the response
// itself. net/http parses the responses.
//
// The package does not support HTTP/2, proxies, Unicode hosts, requests of unknown length, Expect,
// upgrades and httptrace. If a response arrives before the request is written, the transport reads
// it after the request was written or the write failed.
//
// It also contains the rules for the configured headers of webhook requests. The settings and each
// request are checked with them (header.go).
package http1
