// Package admin serves the HTTP API of a collector for operators and tests. The file
// openapi.yaml describes the API, and tests compare the API with it.
//
// A handler reads the request strictly: unknown fields and parameters are errors. It calls
// package engine and returns a value or an error, which is encoded as JSON. Handlers keep no
// state, except the reset positions of tests. Requests are not authorized here: an
// [access.Guard] wraps the API.
//
// Start with admin.go (routes), response.go and query.go (input and output), settings.go
// (sources and destinations), and received.go and expect.go (the API for tests).
package admin
