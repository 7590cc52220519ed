// Package admin is the API for programs that run a collector: health and ledgers,
// sources and destinations, calls and their attempts, what events look like, replays, and
// lists of users.
// openapi.yaml describes it, and tests hold the two together.
//
// A request is routed to a handler that returns a value or an error, and is answered
// with one or the other as JSON. Bodies and queries are read strictly: what is not
// known is refused, by name. All rules are those of package engine; a handler waits for
// what it asks there, and keeps no state but up to where tests have reset what they are
// shown. It trusts every request: an [access.Guard]
// stands before it.
//
// # Files
//
//  1. admin.go: the routes
//  2. expect.go, came.go: what tests ask: whether calls are as expected, and which came
//  3. users.go: audiences, computed traits, deletion requests
//  4. timeline.go: the calls of one user in order
//  5. settings.go: sources and destinations
//  6. replays.go: calls become due again
//  7. calls.go: calls, attempts, rejections, ledgers
//  8. events.go: what the calls of each event look like
//  9. activity.go: what happens, one after the other
//  10. answer.go: bodies are read, and answers written
//  11. query.go: parameters are read
//  12. resets.go: up to where tests have reset what they are shown
package admin
