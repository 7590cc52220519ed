// Package service runs a collector as a program: it opens the queue, listens,
// takes on changes of the configuration, and ends gracefully.
//
// It listens first: until the queue is open, requests wait, and probes are
// told that the process lives and is not ready. A reload that fails changes nothing.
//
// # Files
//
//  1. start.go: it starts, runs and ends
//  2. reload.go: changes of the configuration
//  3. handlers.go: who may ask for what
//  4. open.go: the queue is opened, and a collector started on it
//  5. service.go: what a service is made of
//  6. attempts.go, attempts_codec.go: what became of calls is stored, for the history
//  7. plans.go: calls are held against the plans of their sources
//  8. startupgate.go: requests wait until the queue is open
//  9. memory.go: how much garbage there may be
package service
