// Package inspector is the collector's page for people: what came, what became of it
// and why, and the destinations. Pages are rendered here from the templates, and work
// without scripts; a little JavaScript keeps the list live. Everything is embedded.
//
// # The path of a page
//
// A request passes the login, where the [access.Guard] wants a token, and comes to the
// handler of its page. That asks the engine or the history, and returns an answer: the
// value that a template shows, or an error. It is rendered whole before the first byte
// is written; a script of the page gets the block of it that it asks for. A form
// redirects, and what it did is said on the page that follows, to which a cookie brings
// it. A live page holds a stream open: every quarter of a second it is sent the rows
// that are new or have changed since, and how many it does not see.
//
// # What may block
//
// A page waits for what it asks of the engine. A stream waits for its browser, up to the
// time-out of a write; at most 64 pages are live. Functions given to [history.History.Look]
// and Scan run under the lock of the history: they only pick and copy.
//
// The inspector has no state of its own. A stream is one goroutine and shares nothing.
//
// # Files
//
// What its pages share is package page, and a line of a list package rows.
//
//  1. routes.go: the pages and their paths
//  2. doctor.go: why a signature does not verify
//  3. audiences.go: audiences and computed traits
//  4. destinations.go: destinations, and one of them
//  5. form.go: the form of a destination
//  6. deletions.go: deletion requests
//  7. suggest.go: how a search may go on
//  8. calls.go: the page of calls
//  9. replay.go: calls are replayed
//  10. stream.go: what is new is pushed
//  11. call.go: one call
//  12. copy.go: a call as code
//  13. start.go: before the first call
//  14. list.go: the newest calls that a filter picks
//  15. inspector.go: what the pages of this package share
package inspector
