// Package httpcheck validates the URLs and configured headers of webhook requests. It is used for
// settings, and again before each request.
package httpcheck
