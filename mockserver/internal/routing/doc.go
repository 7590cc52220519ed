// Package routing decides whether a destination gets a call: by its settings, its
// sources, and the integrations object that the call carries. Every decision is a pure
// function; one that says no says why in words.
//
// The same rules are asked at three times: [IsConnected] when a batch is stored,
// [Route] when a destination works at a call, and [IntegrationsOf] when a library asks
// which integrations get its calls from the server.
//
// # Files
//
//  1. route.go: all of it
package routing
