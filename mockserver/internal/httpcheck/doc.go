// Package httpcheck says what the URL and the static headers of a request to a webhook
// can be: for settings when they are validated, and for each request before it is sent.
//
// # Files
//
//  1. httpcheck.go: names and values of headers, errors of URLs
package httpcheck
