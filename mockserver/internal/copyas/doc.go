// Package copyas converts a call to code that sends the call again: curl commands, Go and Node
// programs, and a Go test.
//
// The code sends a new call with the data and the timestamp of the original. It omits the
// messageId, because the collector would otherwise drop the call as a duplicate. It also omits the
// times that are added on the way.
//
// Calls contain untrusted data, so every value is written as a literal of the language. All
// functions are pure.
package copyas
