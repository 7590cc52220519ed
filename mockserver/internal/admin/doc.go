// Package admin is the API for programs that run a collector: health and ledgers,
// sources and destinations, calls and their attempts, replays, and lists of users.
// openapi.yaml describes it, and tests hold the two together.
//
// A request is routed to a handler that returns a value or an error, and is answered
// with one or the other as JSON. Bodies and queries are read strictly: what is not
// known is refused, by name. All rules are those of package engine; a handler waits for
// what it asks there, and keeps no state. It trusts every request: an [access.Guard]
// stands before it.
//
// # Files
//
//  1. admin.go: the routes
//  2. users.go: audiences, computed traits, deletion requests
//  3. calls.go: calls, attempts, rejections, replays, ledgers
//  4. settings.go: sources and destinations
//  5. answer.go: bodies are read, and answers written
//  6. query.go: parameters are read
package admin
