// Package tracecontext reads the headers traceparent and tracestate of the W3C recommendation
// Trace Context. Invalid headers are ignored, and the size is limited.
package tracecontext
