// Package tracecontext reads the trace context of a request, as the W3C recommendation
// Trace Context has it: the headers traceparent and tracestate. What is not as it says is
// ignored, and what is kept is bounded.
//
// # Files
//
//  1. list.go: the contexts of several calls
//  2. tracecontext.go: the headers, and what is valid of them
package tracecontext
