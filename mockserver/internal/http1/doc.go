// Package http1 carries requests over HTTP/1.1, each in the goroutine that makes it.
//
// The Transport of net/http has two goroutines for each connection, one that writes and
// one that reads, so that an exchange passes through three. A delivery has nothing else
// to do than to wait for its response: here its own goroutine writes the request, and
// reads the response. The responses are parsed by net/http all the same.
//
// Package net/http stays for what is not needed here: HTTP/2, proxies, hosts in Unicode,
// requests of unknown length, Expect, upgrades of a connection, hooks of httptrace. And one
// thing differs: a response that comes before its request is written is read after that,
// or after the writing has failed.
//
// # Files
//
//  1. transport.go: a request finds a connection, and leaves it to the next
//  2. conn.go: an exchange on a connection
//  3. probe.go, probe_unix.go: whether a server has closed an idle connection
package http1
