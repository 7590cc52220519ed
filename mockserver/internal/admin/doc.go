// Package admin serves the HTTP API of a collector for operators and tests. openapi.yaml
// describes it; tests compare both.
//
// A handler reads the request strictly (unknown fields and parameters are errors), calls
// package engine, and returns a value or an error, which is encoded as JSON. Handlers keep no
// state, except the reset positions of tests. Requests are not authorized here: an
// [access.Guard] wraps the API.
//
// Start with admin.go (routes), answer.go and query.go (input and output), settings.go
// (sources and destinations), and came.go and expect.go (the API for tests).
package admin
